"""A tiny Llama with random weights, a tokenizer of 4,093 words and two LoRA adapters, in the folder given.

Nothing is downloaded.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
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

# Adapters of rank 8 on the queries of both layers.
for name in ("lora-a", "lora-b"):
    adapter = Path(folder) / name
    adapter.mkdir(exist_ok=True)
    settings = {"peft_type": "LORA", "base_model_name_or_path": folder, "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16}
    settings |= {"target_modules": ["q_proj"], "lora_dropout": 0.0, "bias": "none", "inference_mode": True}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    weights = {}
    for layer in range(2):
        place = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights[f"{place}.lora_A.weight"] = torch.randn(8, 256, dtype=torch.bfloat16)
        weights[f"{place}.lora_B.weight"] = torch.randn(256, 8, dtype=torch.bfloat16)
    save_file(weights, adapter / "adapter_model.safetensors")
