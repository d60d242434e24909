"""A tiny Llama with random weights and a tokenizer of 4,093 words, in the folder given. Nothing is downloaded."""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TOKENS = 4096
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}{% if add_generation_prompt %}w0 {% endif %}"

folder = sys.argv[1]
vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{n}": n + 3 for n in range(TOKENS - 3)}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
fast.chat_template = TEMPLATE
fast.save_pretrained(folder)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=TOKENS,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=8192,
    bos_token_id=1,
    eos_token_id=2,
    tie_word_embeddings=True,
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
