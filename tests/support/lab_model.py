"""Makes the tiny models of the lab: random weights, a tokenizer trained on the spot, nothing downloaded.

Runs in the lab's own interpreter (`torch`, `transformers`, `tokenizers`), called by `./dev lab` and the engine tests:

    python tests/support/lab_model.py DIR/tiny-llama
    python tests/support/lab_model.py DIR/hybrid qwen3-next     no weights: for `--load-format dummy`
    python tests/support/lab_model.py DIR/hybrid granite        the same
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

WORDS = (
    "the a quick brown fox jumps over lazy dog while model serves tokens for each request and cache keeps "
    "blocks of prefix so that engine can reuse them when prompt is same again"
).split()
SPECIAL = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer(target: Path) -> int:
    """Train a byte-level BPE on random sentences and save it; returns the vocabulary's size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    rng = random.Random(0)
    sentences = [" ".join(rng.choices(WORDS, k=rng.randint(4, 14))) + "." for _ in range(2000)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )
    fast.save_pretrained(target)
    return len(fast)


def make_llama(target: Path) -> None:
    """Save a two-layer Llama with random weights in three shards."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    target.mkdir(parents=True, exist_ok=True)
    size = make_tokenizer(target)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=32768,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        dtype="bfloat16",
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(target, max_shard_size="300KB")


def make_qwen3_next(target: Path) -> None:
    """Save the configuration of a tiny hybrid model; linear heads of 32 load, but no CPU kernel can answer a request."""
    from transformers import Qwen3NextConfig

    target.mkdir(parents=True, exist_ok=True)
    config = Qwen3NextConfig(
        vocab_size=make_tokenizer(target),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        linear_key_head_dim=32,
        linear_value_head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
        max_position_embeddings=32768,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        dtype="bfloat16",
        architectures=["Qwen3NextForCausalLM"],
    )
    config.save_pretrained(target)


def make_granite(target: Path) -> None:
    """Save the configuration of a tiny Mamba2 hybrid: with prefix caching its first prompt over a block kills the engine."""
    from transformers import GraniteMoeHybridConfig

    target.mkdir(parents=True, exist_ok=True)
    config = GraniteMoeHybridConfig(
        vocab_size=make_tokenizer(target),
        hidden_size=128,
        intermediate_size=256,
        shared_intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=0,
        num_experts_per_tok=0,
        layer_types=["mamba", "attention"],
        position_embedding_type="rope",
        mamba_n_heads=8,
        mamba_d_state=16,
        mamba_d_head=32,
        max_position_embeddings=32768,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        dtype="bfloat16",
        architectures=["GraniteMoeHybridForCausalLM"],
    )
    config.save_pretrained(target)


MODELS = {"qwen3-next": make_qwen3_next, "granite": make_granite}

if __name__ == "__main__":
    MODELS.get((*sys.argv[2:], "")[0], make_llama)(Path(sys.argv[1]))
