"""A DeepSpeed script as its users write one: a small transformer on random tokens, ZeRO on CPUs by torchrun.

    torchrun --nproc-per-node 2 deepspeed_script.py --micro_batch 4 --stage 1 --save out
"""

import argparse

import deepspeed
import torch
from torch import nn

VOCABULARY, LENGTH, WIDTH = 256, 128, 128


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True), 4)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1] - 1)
        logits = self.head(self.blocks(self.embed(tokens[:, :-1]), mask, is_causal=True))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro_batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--stage", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--local_rank", type=int, default=-1)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = {
        "train_micro_batch_size_per_gpu": args.micro_batch,
        "gradient_accumulation_steps": args.accumulate,
        "steps_per_print": 1,
        "log_level": "info",
        "tensorboard": {"enabled": args.save is not None, "output_path": str(args.save), "job_name": "events"},
        "zero_optimization": {"stage": args.stage},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    }
    deepspeed.init_distributed("gloo")
    model = Language()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    if args.resume:
        engine.load_checkpoint(args.save)
    tokens = torch.randint(VOCABULARY, (args.micro_batch, LENGTH + 1))
    while engine.global_steps < args.steps:
        loss = engine(tokens)
        engine.backward(loss)
        engine.step()
        if args.save and engine.is_gradient_accumulation_boundary() and engine.global_steps % 20 == 0:
            engine.save_checkpoint(args.save)


if __name__ == "__main__":
    main()
