// What holds of every model that reads its inputs whole, of ids or of numbers: company, threads and dropped
// works change no bit, and a pass holds what is declared.
#ifndef HEED_TESTS_ENGINE_MODELS_WHOLE_INPUTS_H_
#define HEED_TESTS_ENGINE_MODELS_WHOLE_INPUTS_H_

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/models/transformer.h"
#include "gtest/gtest.h"
#include "tests/testing/random_model.h"

namespace heed {

using Output = std::vector<float>;

struct WholeInput {
  std::vector<int32_t> ids;
  std::vector<float> numbers;
  std::vector<int32_t> global_ids{}, labels{};  // of models that read a global input
  std::vector<int32_t> types{};                 // of models that know types
};

// A global input, its default or another in which tokens belong anywhere.
inline void AddGlobalInput(const ModelInfo& info, std::mt19937& random, WholeInput& input) {
  if (!info.global_input.has_default() || random() % 2 == 0) {
    for (size_t i = 0; i < 1 + input.ids.size() / 6; ++i)
      input.global_ids.push_back(static_cast<int32_t>(random() % info.vocab_size));
    for (size_t i = 0; i < input.ids.size(); ++i)
      input.labels.push_back(static_cast<int32_t>(random() % (1 + input.global_ids.size())));
  }
  CompleteGlobalInput(info.global_input, std::ssize(input.ids), input.global_ids, input.labels);
}

inline WholeInput RandomInput(const ModelInfo& info, std::mt19937& random, int64_t rows) {
  WholeInput input;
  for (int64_t i = 0; i < rows * info.input.ids; ++i)
    input.ids.push_back(static_cast<int32_t>(random() % info.vocab_size));
  std::normal_distribution<float> number;
  for (int64_t i = 0; i < rows * info.input.numbers; ++i) input.numbers.push_back(number(random));
  if (info.global_input.read) AddGlobalInput(info, random, input);
  const bool typed = info.type_vocab_size > 0 && random() % 3 > 0;
  for (size_t i = 0; i < input.ids.size() && typed; ++i)
    input.types.push_back(static_cast<int32_t>(random() % info.type_vocab_size));
  return input;
}

// All answers, one after another.
inline Work AskingAll(const Model& model, const WholeInput& input, Sequence* sequence, Output* out) {
  Work work{.sequence = sequence,
            .tokens = input.ids,
            .types = input.types,
            .numbers = input.numbers,
            .source = input.global_ids,
            .labels = input.labels};
  work.wanted.resize(model.Answers(work.InputRows(model.info().input), 0, std::ssize(input.global_ids)));
  std::iota(work.wanted.begin(), work.wanted.end(), 0);
  work.read = [out](int32_t, std::span<const float> row) { out->insert(out->end(), row.begin(), row.end()); };
  return work;
}

inline std::vector<Output> Together(const Model& model, const std::vector<WholeInput>& inputs,
                                    Threads& threads) {
  std::vector<Output> outputs(inputs.size());
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  for (size_t i = 0; i < inputs.size(); ++i) {
    sequences.push_back(model.Start());
    batch.push_back(AskingAll(model, inputs[i], sequences.back().get(), &outputs[i]));
  }
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return outputs;
}

inline Output Alone(const Model& model, const WholeInput& input, Threads& threads) {
  return Together(model, {input}, threads)[0];
}

inline void ExpectSameBitsInAnyCompany(const Model& model, int64_t longest) {
#ifdef __SANITIZE_THREAD__
  constexpr int kMixes = 2;
#else
  constexpr int kMixes = 8;
#endif
  Threads one(1), two(2), seven(7);
  std::mt19937 random(11);
  for (int mix = 0; mix < kMixes; ++mix) {
    std::vector<WholeInput> inputs;
    std::vector<Output> alone;
    for (size_t n = 1 + random() % 5; inputs.size() < n;) {
      const int64_t most = random() % 3 == 0 ? longest : 20;
      inputs.push_back(RandomInput(model.info(), random, 1 + random() % most));
      alone.push_back(Alone(model, inputs.back(), one));
      ASSERT_FALSE(alone.back().empty());
    }
    for (Threads* threads : {&one, &two, &seven})
      ASSERT_EQ(Together(model, inputs, *threads), alone) << "mix " << mix << ", " << threads->count();
  }
}

// A work may be dropped between any two turns; `turns`: of a batch of small inputs.
inline void ExpectDroppedWorksChangeNoOther(const Model& model, int turns) {
  Threads threads(2);
  std::mt19937 random(5);
  const WholeInput large = RandomInput(model.info(), random, 40),
                   small = RandomInput(model.info(), random, 7);
  const Output alone = Alone(model, small, threads);
  for (int at = 1; at < turns; ++at) {
    const auto a = model.Start(), b = model.Start();
    Output dropped, kept;
    std::vector<Work> batch;
    batch.push_back(AskingAll(model, large, a.get(), &dropped));
    batch.push_back(AskingAll(model, small, b.get(), &kept));
    const auto pass = model.Begin(&batch);
    for (int i = 0; i < at; ++i) ASSERT_TRUE(pass->Advance(threads)) << i;
    pass->Drop(0);
    while (pass->Advance(threads)) {
    }
    EXPECT_TRUE(dropped.empty());
    EXPECT_EQ(kept, alone) << "dropped after " << at;
  }
}

inline void ExpectAWorkspaceAsDeclared(const Json& config, Precision precision) {
  for (int64_t rows : {1, 2, 3, 70, 301}) {
    for (int count : {1, 3}) {
      const RandomModel model = MakeRandomModel(config, precision);
      Threads threads(count);
      std::mt19937 random(5);
      const WholeInput input = RandomInput(model->info(), random, rows);
      Together(*model, {input, input}, threads);
      const int64_t held = static_cast<const Transformer&>(*model).workspaces().kept_bytes();
      const int64_t source = std::ssize(input.global_ids);
      PassSize size{.rows = 2 * rows,
                    .source_rows = 2 * source,
                    .answers = 2 * model->Answers(rows, 0, source),
                    .threads = count,
                    .works = 2};
      EXPECT_LE(held, model->WorkspaceBytes(size)) << rows << " rows, " << count << " threads";
      EXPECT_GE(held, model->WorkspaceBytes(size) * 0.95) << rows << " rows, " << count << " threads";
      size.works = 0;
      EXPECT_LE(held, model->WorkspaceBytes(size)) << "of how many inputs is not known";
    }
  }
}

// A configuration with a value changed, as "/layers/0/attention" has it, and without a key.
inline Json With(Json config, const std::string& pointer, const Json& value) {
  config[Json::json_pointer(pointer)] = value;
  return config;
}

inline Json Without(Json config, const std::string& key) {
  config.erase(key);
  return config;
}

// What is said of a configuration that is refused; "accepted" if it is not.
inline std::string RefusalOf(const Json& config) {
  const absl::StatusOr<RandomModel> model = TryRandomModel(config);
  return model.ok() ? "accepted" : std::string(model.status().message());
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_MODELS_WHOLE_INPUTS_H_
