"""Makes tests/golden/walks: four small checkpoints with random weights, as `transformers` and `sentence-transformers` save
them, which the README's walks serve as they are; and generation.json, what `transformers` generates with two of them under
one generation_config.json after the other.

    ./dev peers walks
"""
import json
import os
import pathlib
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as sentence_modules
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden/walks"
LINES = (
    "The meeting starts at nine and the coffee is already cold.",
    "A warm and funny film, beautifully acted from end to end.",
    "The plot is a mess and the jokes fall flat.",
    "Who wrote Hamlet? William Shakespeare wrote it about 1600.",
    "Good morning! How are you today? I am fine, thank you.",
    "The train to Paris leaves from platform four in ten minutes.",
    "Be brief, be kind, and say what you do not know.",
)
CHAT = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def word_pieces():
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trained(tokenizer, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=64)


def byte_pairs(special, size=320, **settings):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained(tokenizer, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet,
                                           show_progress=False))
    return tokenizer, lambda kind: kind(tokenizer_object=tokenizer, model_max_length=128, **settings)


def save(name, *parts):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    for part in parts:
        part.save_pretrained(folder)
    return folder


def bert(kind, tokenizer, **settings):
    return kind(transformers.BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                        intermediate_size=64, max_position_embeddings=64, initializer_range=0.2,
                                        **settings)).eval()


def encoder():
    tokenizer = word_pieces()
    model = bert(transformers.BertForSequenceClassification, tokenizer, id2label={0: "negative", 1: "positive"},
                 label2id={"negative": 0, "positive": 1})
    save("encoder", tokenizer, model)


def embedder():
    tokenizer = word_pieces()
    parts = FOLDER / "embedder.parts"
    for part in (tokenizer, bert(transformers.BertModel, tokenizer)):
        part.save_pretrained(parts)
    body = sentence_modules.Transformer(str(parts), max_seq_length=64)
    pooling = sentence_modules.Pooling(body.get_word_embedding_dimension(), "mean")
    model = SentenceTransformer(
        modules=[body, pooling, sentence_modules.Normalize()], device="cpu",
        prompts={"query": "query: ", "document": "passage: "})
    shutil.rmtree(FOLDER / "embedder", ignore_errors=True)
    model.save(str(FOLDER / "embedder"), create_model_card=False)
    shutil.rmtree(parts)


def decoder():
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    _, made = byte_pairs(special, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer = made(transformers.Qwen2TokenizerFast)
    tokenizer.chat_template = CHAT
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=32768, tie_word_embeddings=True, initializer_range=0.2,
        bos_token_id=0, eos_token_id=2, pad_token_id=0)
    model = transformers.Qwen3ForCausalLM(config).eval()
    model.generation_config = transformers.GenerationConfig(
        do_sample=True, temperature=0.7, top_k=20, top_p=0.8, max_new_tokens=40, bos_token_id=0,
        eos_token_id=[2, 0], pad_token_id=0)
    save("decoder", tokenizer, model)


def encoder_decoder():
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer, made = byte_pairs(special, size=280, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
                                 mask_token="<mask>", cls_token="<s>", sep_token="</s>")
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer = made(transformers.BartTokenizerFast)
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=128, init_std=0.3,
        forced_eos_token_id=None)
    model = transformers.BartForConditionalGeneration(config).eval()
    model.generation_config = transformers.GenerationConfig(**IDS, **SUMMARY)
    save("encoder_decoder", tokenizer, model)


IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
SUMMARY = {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0, "max_length": 24, "min_length": 8,
           "no_repeat_ngram_size": 3, "forced_bos_token_id": 0, "forced_eos_token_id": 2}

# Of each folder generation_config.json, beside the ids of tokens.
SETTINGS = {
    "encoder_decoder": (
        {"max_length": 19},
        SUMMARY,
        {**SUMMARY, "early_stopping": False, "length_penalty": 0.6, "min_length": 12},
        {"max_length": 19, "repetition_penalty": 1.3, "suppress_tokens": [30, 31, 32], "begin_suppress_tokens": [40, 2]},
        {"max_length": 19, "no_repeat_ngram_size": 2, "encoder_no_repeat_ngram_size": 2},
        {"max_new_tokens": 16, "min_new_tokens": 10, "forced_bos_token_id": 7, "begin_suppress_tokens": [9]},
        {"max_length": 18, "num_beams": 3, "renormalize_logits": True, "suppress_tokens": list(range(100, 200))},
        {"max_length": 18, "num_beams": 3, "suppress_tokens": list(range(100, 200)), "forced_eos_token_id": 2},
    ),
    "decoder": (
        {"max_new_tokens": 16},
        {"max_length": 70, "min_length": 60},
        {"max_new_tokens": 16, "no_repeat_ngram_size": 1},
        {"max_new_tokens": 16, "num_beams": 2, "length_penalty": -1.0, "repetition_penalty": 1.0},
    ),
}


def texts_of(tokenizer, name):
    if name == "decoder":
        messages = [{"role": "user", "content": LINES[4]}]
        return [tokenizer.apply_chat_template(messages, add_generation_prompt=True), tokenizer(LINES[0]).input_ids]
    return [tokenizer(line).input_ids for line in LINES[:3]]


# What comes of texts without a rule, cut: as runs of tokens that must not come they do something.
def bad_words(generate, text):
    made = generate({"max_new_tokens": 12}, text)
    return [made[1:2], made[3:5], [2]]


def generation():
    cases = []
    for name, settings in SETTINGS.items():
        folder = FOLDER / name
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        auto = transformers.AutoModelForSeq2SeqLM if name == "encoder_decoder" else transformers.AutoModelForCausalLM
        model = auto.from_pretrained(folder, dtype=torch.float32).eval()
        ids = IDS if name == "encoder_decoder" else {"bos_token_id": 0, "eos_token_id": [2, 0], "pad_token_id": 0}
        texts = texts_of(tokenizer, name)

        def generate(setting, text):
            model.generation_config = transformers.GenerationConfig(**ids, **setting)
            with torch.inference_mode():
                made = model.generate(input_ids=torch.tensor([text]), attention_mask=torch.ones(1, len(text)).long())
            return made[0, 1 if name == "encoder_decoder" else len(text):].tolist()

        for setting in (*settings, {"max_new_tokens": 12, "bad_words_ids": bad_words(generate, texts[0])}):
            config = {**ids, **setting}
            cases.append({"folder": name, "generation_config": config,
                          "runs": [{"ids": text, "generated": generate(setting, text)} for text in texts]})
    (FOLDER / "generation.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    for seed, make in enumerate((encoder, embedder, decoder, encoder_decoder)):
        torch.manual_seed(seed)
        make()
    generation()
