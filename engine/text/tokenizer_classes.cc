#include "engine/text/tokenizer_classes.h"

#include <algorithm>
#include <iterator>

namespace heed {
namespace {

// Model types and classes whose tokenizer is that of another class.
struct Kin {
  std::string_view name, tokenizer_class;
};
constexpr Kin kKin[] = {
    {"bert", "BertTokenizer"},
    {"convbert", "BertTokenizer"},
    {"ConvBertTokenizer", "BertTokenizer"},
    {"distilbert", "BertTokenizer"},
    {"DistilBertTokenizer", "BertTokenizer"},
    {"electra", "BertTokenizer"},
    {"ElectraTokenizer", "BertTokenizer"},
    {"layoutlm", "BertTokenizer"},
    {"LayoutLMTokenizer", "BertTokenizer"},
    {"lxmert", "BertTokenizer"},
    {"LxmertTokenizer", "BertTokenizer"},
    {"mobilebert", "BertTokenizer"},
    {"MobileBertTokenizer", "BertTokenizer"},
    {"squeezebert", "BertTokenizer"},
    {"SqueezeBertTokenizer", "BertTokenizer"},
    {"RetriBertTokenizer", "BertTokenizer"},
    {"DPRQuestionEncoderTokenizer", "BertTokenizer"},
    {"DPRContextEncoderTokenizer", "BertTokenizer"},
    {"DPRReaderTokenizer", "BertTokenizer"},
    {"mpnet", "MPNetTokenizer"},
    {"funnel", "FunnelTokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"gpt_neo", "GPT2Tokenizer"},
    {"gptj", "GPT2Tokenizer"},
    {"gpt_bigcode", "GPT2Tokenizer"},
    {"starcoder2", "GPT2Tokenizer"},
    {"opt", "GPT2Tokenizer"},
    {"codegen", "GPT2Tokenizer"},
    {"CodeGenTokenizer", "GPT2Tokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"bart", "RobertaTokenizer"},
    {"BartTokenizer", "RobertaTokenizer"},
    {"longformer", "RobertaTokenizer"},
    {"LongformerTokenizer", "RobertaTokenizer"},
    {"led", "RobertaTokenizer"},
    {"LEDTokenizer", "RobertaTokenizer"},
    {"mega", "RobertaTokenizer"},
    {"blenderbot", "BlenderbotTokenizer"},
    {"deberta", "DebertaTokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"qwen2_moe", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"t5", "T5Tokenizer"},
    {"mt5", "T5Tokenizer"},
    {"MT5Tokenizer", "T5Tokenizer"},
    {"umt5", "T5Tokenizer"},
    {"longt5", "T5Tokenizer"},
    {"switch_transformers", "T5Tokenizer"},
    {"albert", "AlbertTokenizer"},
    {"nystromformer", "AlbertTokenizer"},
    {"yoso", "AlbertTokenizer"},
    {"fnet", "FNetTokenizer"},
    {"xlnet", "XLNetTokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
    {"xlm-roberta-xl", "XLMRobertaTokenizer"},
    {"LayoutXLMTokenizer", "XLMRobertaTokenizer"},
    {"camembert", "CamembertTokenizer"},
    {"xglm", "XGLMTokenizer"},
    {"mbart", "MBartTokenizer"},
    {"pegasus", "PegasusTokenizer"},
    {"bigbird_pegasus", "PegasusTokenizer"},
    {"big_bird", "BigBirdTokenizer"},
    {"deberta-v2", "DebertaV2Tokenizer"},
    {"reformer", "ReformerTokenizer"},
    {"llama", "LlamaTokenizer"},
    {"CodeLlamaTokenizer", "LlamaTokenizer"},
    {"mistral", "LlamaTokenizer"},
    {"mixtral", "LlamaTokenizer"},
    {"phi3", "LlamaTokenizer"},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer"},
    {"recurrent_gemma", "GemmaTokenizer"},
    // Known, so that they are refused by name and not taken for the usual class of their files.
    {"m2m_100", "M2M100Tokenizer"},
    {"rembert", "RemBertTokenizer"},
    {"plbart", "PLBartTokenizer"},
    {"xlm-prophetnet", "XLMProphetNetTokenizer"},
    {"roformer", "RoFormerTokenizer"},
    {"biogpt", "BioGptTokenizer"},
    {"blenderbot-small", "BlenderbotSmallTokenizer"},
    {"clip", "CLIPTokenizer"},
    {"ctrl", "CTRLTokenizer"},
    {"flaubert", "FlaubertTokenizer"},
    {"openai-gpt", "OpenAIGPTTokenizer"},
    {"whisper", "WhisperTokenizer"},
    {"xlm", "XLMTokenizer"},
};

}  // namespace

std::string_view TokenizerClassOf(std::string_view name) {
  const auto kin =
      std::find_if(std::begin(kKin), std::end(kKin), [&](const Kin& k) { return k.name == name; });
  return kin == std::end(kKin) ? std::string_view() : kin->tokenizer_class;
}

}  // namespace heed
