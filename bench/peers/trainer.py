"""A training as users of Hugging Face's Trainer write it: a small Llama on random words, alone or under torchrun.

    pip install transformers accelerate
    torchrun --standalone --nproc-per-node 2 bench/peers/trainer.py --micro-batch 4 --steps 40 --out runs/hf

    isobar train run.yaml --ranks 2 --set run.out=runs/hf --set 'run.reads=trainer' --set 'run.command=torchrun
      --standalone --nproc-per-node {ranks} bench/peers/trainer.py --micro-batch {policy.micro_batch} --out {out}'
"""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

WORDS, TOKENS, WIDTH = 256, 128, 128


def sample():
    words = torch.randint(0, WORDS, (TOKENS,))
    return {"input_ids": words, "labels": words}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--micro-batch", type=int, default=4)
    ap.add_argument("--accumulate", type=int, default=1)
    ap.add_argument("--bf16", action="store_true")
    ap.add_argument("--workers", type=int, default=0)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--deepspeed", help="a configuration of DeepSpeed")
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    torch.manual_seed(0)
    net = LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=3 * WIDTH,
                                       num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4))
    samples = [sample() for _ in range(512)]
    arguments = TrainingArguments(
        output_dir=a.out, per_device_train_batch_size=a.micro_batch, gradient_accumulation_steps=a.accumulate,
        max_steps=a.steps, bf16=a.bf16, dataloader_num_workers=a.workers, logging_steps=5, eval_strategy="steps",
        eval_steps=a.steps, save_strategy="no", report_to="none", deepspeed=a.deepspeed,
        use_cpu=not torch.cuda.is_available())
    Trainer(model=net, args=arguments, train_dataset=samples, eval_dataset=samples[:32]).train()


if __name__ == "__main__":
    main()
