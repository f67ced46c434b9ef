// Whatever a server says reaches a screen as text.
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"
#include "tests/client/metrics.h"

namespace heed::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a hostile server could say: a colour, a title, an 8-bit sequence, text that runs backwards.
constexpr char kHostile[] = "\x1b[31m\x1b]0;t\x07\u009b31m\u202eabc\u2066\u200f";

TEST(Screen, NothingThatAServerSaysIsObeyed) {
  FakeServer server;
  const auto refuse = [](auto&, auto&, auto&) {
    return Refusal(grpc::NOT_FOUND, kHostile,
                   {.reason = kHostile, .field = kHostile, .request_id = kHostile});
  };
  server.embed = refuse;
  server.classify = [](auto&, auto&, v1::ClassifyResponse& response) {
    v1::LabelScore* label = response.add_results()->mutable_value()->add_labels();
    label->set_label(kHostile);
    response.add_results()->mutable_error()->set_message(kHostile);
    response.mutable_results(1)->mutable_error()->set_reason(kHostile);
    return grpc::Status::OK;
  };
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    v1::ModelSummary* model = response.add_models();
    model->set_model(kHostile);
    model->set_version(kHostile);
    model->mutable_error()->set_message(kHostile);
    return grpc::Status::OK;
  };
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    for (std::string* text : {model.mutable_model(), model.mutable_version(), model.mutable_description(),
                              model.add_labels(), model.add_attention(), model.add_rpcs()})
      *text = kHostile;
    model.set_state(v1::MODEL_STATE_READY);
    model.mutable_default_stopping()->add_stop(kHostile);
    model.add_weights_files()->set_name(kHostile);
    model.mutable_weights_files(0)->set_sha256(kHostile);
    return grpc::Status::OK;
  };
  server.describe_server = [](auto&, auto&, v1::ServerDescription& description) {
    for (std::string* text :
         {description.mutable_version(), description.mutable_build()->mutable_compiler(),
          description.mutable_build()->mutable_libraries(), description.mutable_build()->mutable_isa(),
          description.add_features(), description.add_models()->mutable_model()})
      *text = kHostile;
    return grpc::Status::OK;
  };
  server.get_metrics = [](auto&, auto&, v1::GetMetricsResponse& response) {
    MadeMetrics made(1);
    made.Value("heed_build_info", 1, {{"version", kHostile}});
    for (const char* state : {"ready", kHostile})
      made.Value("heed_model_state", 1, {{"model_name", kHostile}, {"state", state}});
    response = made.answer;
    return grpc::Status::OK;
  };
  server.score = [](auto&, auto&, v1::ScoreResponse& response) {
    v1::TokenLogprob* token = response.add_results()->mutable_value()->add_logprobs();
    token->set_text(kHostile);
    token->set_bytes(kHostile);
    token->add_top()->set_bytes(kHostile);
    return grpc::Status::OK;
  };
  server.fill = [](auto&, auto&, v1::FillResponse& response) {
    v1::TopLogprob* token = response.add_results()->mutable_value()->add_positions()->add_tokens();
    token->set_text(kHostile);
    token->set_bytes(kHostile);
    return grpc::Status::OK;
  };
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    v1::GenerateEvent last = Finished(1);
    last.mutable_finished()->set_stop_string(kHostile);
    for (const auto& event : {Piece(kHostile), last}) out.Write(event);
    return Refusal(grpc::INTERNAL, kHostile, {.reason = kHostile});
  };
  for (const std::vector<std::string>& words : {std::vector<std::string>{"classify", "a", "b"},
                                                {"embed", "a"},
                                                {"models"},
                                                {"describe"},
                                                {"info"},
                                                {"top", "--count=1", "--interval=0.1s"},
                                                {"score", "a"},
                                                {"fill", "a"},
                                                {"generate", "a"}}) {
    for (const bool json : {false, true}) {
      std::vector<std::string> command = words;
      if (json) command.push_back("--json");
      command.push_back("--address=" + server.address());
      std::istringstream in;
      std::ostringstream out, err;
      Terminal terminal{in, out, err, false, /*out_is_screen=*/true, /*err_is_screen=*/true};
      RunCommand(ClientCommands(), command, terminal);
      for (const std::string& shown : {out.str(), err.str()}) {
        for (const char* obeyed : {"\x1b", "\x07", "\u009b", "\u202e", "\u2066", "\u200f"})
          EXPECT_THAT(shown, Not(HasSubstr(obeyed))) << words[0];
      }
      EXPECT_THAT(out.str() + err.str(), HasSubstr("abc")) << words[0];
    }
  }
}

}  // namespace
}  // namespace heed::cli
