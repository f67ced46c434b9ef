// heed embed, score, fill, tokenize and detokenize: what they send and how they print it.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::HasSubstr;

TEST(Embed, PrintsNumbersThatAreTheSameWhenReadAgain) {
  FakeServer server;
  server.embed = [](auto&, auto&, v1::EmbedResponse& response) {
    v1::Embedding* value = response.add_results()->mutable_value();
    for (const float number : {0.1f, 1.0f / 3}) value->add_vector(number);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"embed", "text"}).out, "0.100000001 0.333333343\n");
}

TEST(Embed, NormalizesAsTheFlagSays) {
  FakeServer server;
  v1::EmbedRequest sent;
  server.embed = [&](auto&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
    sent = request;
    response.add_results()->mutable_value();
    return grpc::Status::OK;
  };
  RunAt(server, {"embed", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_UNSPECIFIED);
  RunAt(server, {"embed", "--normalize=yes", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_YES);
  RunAt(server, {"embed", "--normalize=no", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_NO);
  RunAt(server, {"embed", "--normalize=model", "text"});
  EXPECT_EQ(sent.options().normalize(), v1::EmbedOptions::NORMALIZE_UNSPECIFIED);
  EXPECT_THAT(Heed({"embed", "--normalize=perhaps", "text"}).err,
              HasSubstr("--normalize=perhaps: must be model, yes or no"));
}

TEST(Embed, SendsDimensionsAndPrompt) {
  FakeServer server;
  v1::EmbedRequest sent;
  server.embed = [&](auto&, const v1::EmbedRequest& request, v1::EmbedResponse& response) {
    sent = request;
    response.add_results()->mutable_value();
    return grpc::Status::OK;
  };
  RunAt(server, {"embed", "--dimensions=64", "--prompt_name=query", "text"});
  EXPECT_EQ(sent.options().ShortDebugString(), "dimensions: 64 prompt_name: \"query\"");
  RunAt(server, {"embed", "text"});
  EXPECT_FALSE(sent.options().has_prompt_name());
  RunAt(server, {"embed", "--prompt_name=", "text"});
  EXPECT_TRUE(sent.options().has_prompt_name());
}

TEST(Score, SendsTheContextWithEachContinuation) {
  FakeServer server;
  v1::ScoreRequest sent;
  server.score = [&](auto&, const v1::ScoreRequest& request, v1::ScoreResponse& response) {
    sent = request;
    for (int i = 0; i < request.inputs_size(); ++i) {
      v1::Scored* value = response.add_results()->mutable_value();
      value->set_logprob(-1.5);
      value->set_scored_tokens(2);
      value->add_logprobs()->set_bytes("\xc3");
      v1::TopLogprob* other = value->mutable_logprobs(0)->add_top();
      other->set_bytes("be");
      other->set_logprob(-0.5);
    }
    return grpc::Status::OK;
  };
  const Outcome run =
      RunAt(server, {"score", "--context=To be", "--logprobs", "--top_logprobs=1", " or", " and"});
  EXPECT_EQ(run.out,
            "-1.5000  2 tokens   or\n  0.0000  \"\\xc3\"  -0.5000 \"be\"\n"
            "-1.5000  2 tokens   and\n  0.0000  \"\\xc3\"  -0.5000 \"be\"\n");
  EXPECT_EQ(sent.options().ShortDebugString(), "logprobs: true top_logprobs: 1");
  EXPECT_EQ(sent.inputs(1).ShortDebugString(), "context { text: \"To be\" } continuation { text: \" and\" }");
  RunAt(server, {"score", " or"});
  EXPECT_FALSE(sent.inputs(0).has_context());
  EXPECT_EQ(RunAt(server, {"score", "--as=pair", "a\tb"}).exit, kUsage);
}

TEST(Fill, PrintsTheLikeliestTokensOfAPosition) {
  FakeServer server;
  server.fill = [](auto&, const v1::FillRequest& request, v1::FillResponse& response) {
    EXPECT_EQ(request.options().ShortDebugString(), "top: 2 positions: 3 positions: 1");
    v1::Filled::Position* position = response.add_results()->mutable_value()->add_positions();
    position->set_position(3);
    position->add_tokens()->set_bytes("cat");
    position->add_tokens()->set_bytes("dog");
    position->mutable_tokens(1)->set_logprob(-100);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"fill", "--top=2", "--position=3", "--position=1", "the [MASK]"}).out,
            "position 3:  \"cat\" 1.0000  \"dog\" 0.0000\n");
}

v1::TokenPiece PieceOf(const std::string& spelling, int begin, int end, v1::TokenOrigin origin) {
  v1::TokenPiece piece;
  piece.set_spelling(spelling);
  piece.set_begin(begin);
  piece.set_end(end);
  piece.set_origin(origin);
  return piece;
}

TEST(Tokenize, PrintsIdsThatAreIdsAgain) {
  FakeServer server;
  v1::TokenizeRequest sent;
  server.tokenize = [&](auto&, const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
    sent = request;
    for (const int32_t id : {101, 7592, 102})
      (response.results().empty() ? response.add_results() : response.mutable_results(0))
          ->mutable_value()
          ->mutable_tokens()
          ->add_ids(id);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"tokenize", "hello"}).out, "101 7592 102\n");
  RunAt(server, {"tokenize", "--model=m", "--version=2", "--truncate", "--nospecial_tokens", "--max_tokens=5",
                 "--pieces", "--as=pair", "a\tb"});
  EXPECT_EQ(sent.ShortDebugString(),
            "target { model: \"m\" version: \"2\" } inputs { pair { first: \"a\" second: \"b\" } } text { "
            "truncate: true without_special_tokens: true } options { max_tokens: 5 pieces: true }");
}

TEST(Tokenize, PrintsALineAPiece) {
  FakeServer server;
  server.tokenize = [&](auto&, auto&, v1::TokenizeResponse& response) {
    v1::Tokenized* value = response.add_results()->mutable_value();
    for (const int32_t id : {1, 2, 3}) value->mutable_tokens()->add_ids(id);
    *value->add_pieces() = PieceOf("[CLS]", 0, 0, v1::TOKEN_ORIGIN_ADDED);
    *value->add_pieces() = PieceOf("##\x1b", 4, 7, v1::TOKEN_ORIGIN_TEXT);
    *value->add_pieces() = PieceOf("b", 0, 1, v1::TOKEN_ORIGIN_SECOND);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"tokenize", "--pieces", "text"}).out,
            "1  \"[CLS]\"  added\n2  \"##\\033\"  4-7\n3  \"b\"  0-1 of the second\n");
}

TEST(Detokenize, PrintsTheTextOfIds) {
  FakeServer server;
  v1::DetokenizeRequest sent;
  server.detokenize = [&](auto&, const v1::DetokenizeRequest& request, v1::DetokenizeResponse& response) {
    sent = request;
    response.add_results()->mutable_value()->set_text("hello\x1b[31m");
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"detokenize", "--model=m", "--skip_special_tokens", "101 7592,102"}).out,
            "hello\\x1b[31m\n");
  EXPECT_EQ(
      sent.ShortDebugString(),
      "target { model: \"m\" } inputs { ids: 101 ids: 7592 ids: 102 } options { skip_special_tokens: true }");
  EXPECT_THAT(RunAt(server, {"detokenize", "1 two"}).err,
              HasSubstr("argument 1: token 'two' is not a whole number"));
}

TEST(Rerank, PrintsDocumentsInTheServersOrder) {
  FakeServer server;
  v1::RerankRequest sent;
  server.rerank = [&](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    sent = request;
    for (const int index : {2, 0}) {
      response.add_results()->set_index(index);
      response.mutable_results()->rbegin()->mutable_value()->set_score(0.25f * static_cast<float>(index));
    }
    response.add_results()->set_index(1);
    response.mutable_results(2)->mutable_error()->set_message("the text is empty");
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"rerank", "--query=which?", "a", "", "c\x1b"});
  EXPECT_EQ(run.out, "0.5000  c\\x1b\n0.0000  a\n");
  EXPECT_THAT(run.err, HasSubstr("argument 2: "));
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_EQ(sent.ShortDebugString(),
            "target { } query: \"which?\" documents: \"a\" documents: \"\" documents: \"c\\033\" text { } "
            "options { }");
  RunAt(server, {"rerank", "--query=q", "--model=m", "--version=2", "--priority=3", "--top=2", "--label=yes",
                 "--raw_scores", "--truncate", "a", "b", "c"});
  EXPECT_EQ(sent.target().ShortDebugString(), "model: \"m\" version: \"2\" priority: 3");
  EXPECT_EQ(sent.options().ShortDebugString(), "top: 2 raw_scores: true label: \"yes\"");
  EXPECT_TRUE(sent.text().truncate());
  EXPECT_EQ(RunAt(server, {"rerank", "a"}).exit, kUsage);
  EXPECT_EQ(RunAt(server, {"rerank", "--query=q", "a"}).exit, kFailed) << "there is no document 2";
}

TEST(Answer, PrintsALineASpan) {
  FakeServer server;
  v1::AnswerRequest sent;
  server.answer = [&](auto&, const v1::AnswerRequest& request, v1::AnswerResponse& response) {
    sent = request;
    v1::Answered* value = response.add_results()->mutable_value();
    v1::AnswerSpan* span = value->add_spans();
    span->set_text("in\x1b Paris");
    span->set_begin(4);
    span->set_end(12);
    span->set_score(0.5f);
    if (request.options().no_answer()) value->set_no_answer_score(0.125f);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"answer", "--context=Born in Paris.", "Where?"}).out,
            "0.5000  4-12  in\\x1b Paris\n");
  EXPECT_EQ(sent.inputs(0).ShortDebugString(), "question: \"Where?\" context: \"Born in Paris.\"");
  EXPECT_EQ(RunAt(server, {"answer", "--context=c", "--top=3", "--max_answer_tokens=7", "--no_answer",
                           "--model=m", "--version=2", "--priority=-1", "--truncate", "Where?"})
                .out,
            "0.5000  4-12  in\\x1b Paris\n0.1250  no answer\n");
  EXPECT_EQ(sent.target().ShortDebugString(), "model: \"m\" version: \"2\" priority: -1");
  EXPECT_EQ(sent.options().ShortDebugString(), "top: 3 max_answer_tokens: 7 no_answer: true");
  EXPECT_TRUE(sent.text().truncate());
  EXPECT_EQ(RunAt(server, {"answer", "Where?"}).exit, kUsage);
  EXPECT_THAT(RunAt(server, {"answer", "--context_file=/nowhere", "Where?"}).err, HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace heed::cli
