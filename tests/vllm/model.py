# SPDX-License-Identifier: Apache-2.0
"""Makes a small model with random weights and a tokenizer of 256 bytes, without the network.

model.py FOLDER [--seed N] [--kind llama|hybrid|mla] [--layers N] [--hidden N] [--heads N]

hybrid has layers with a sliding window among those without, mla the compressed KV cache of DeepSeek.
"""
import argparse

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCABULARY = {"vocab_size": 258, "bos_token_id": 256, "eos_token_id": 257}


def save_tokenizer(folder):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate([*alphabet, "<s>", "</s>"])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>",
                                         eos_token="</s>").save_pretrained(folder)


def make(kind, layers, hidden, heads):
    common = dict(VOCABULARY, hidden_size=hidden, intermediate_size=hidden * 2, num_hidden_layers=layers,
                  num_attention_heads=heads, max_position_embeddings=16384, tie_word_embeddings=False,
                  initializer_range=0.2)
    if kind == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=heads, **common))
    if kind == "hybrid":
        return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
            num_key_value_heads=heads, head_dim=hidden // heads, sliding_window=256, pad_token_id=0,
            layer_types=["sliding_attention" if i % 2 else "full_attention" for i in range(layers)], **common))
    return transformers.DeepseekV2ForCausalLM(transformers.DeepseekV2Config(
        num_key_value_heads=heads, first_k_dense_replace=layers, kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128, head_dim=64, n_routed_experts=2, moe_intermediate_size=64, **common))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=("llama", "hybrid", "mla"), default="llama")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    save_tokenizer(given.folder)
    make(given.kind, given.layers, given.hidden, given.heads).to(torch.float32).save_pretrained(given.folder)


main()
