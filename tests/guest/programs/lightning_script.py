"""A Lightning script as its users write one: a small convolutional classifier, DDP on CPUs, metrics by CSVLogger.

    python lightning_script.py --devices 2 --batch_size 16 --num_workers 2 --save out
"""

import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        y = i % 10
        return torch.randn(3, 32, 32, generator=g) + 0.1 * y, y


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        layers, width = [nn.Conv2d(3, 32, 3, padding=1)], 32
        for _ in range(4):
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 32, 3, padding=1)]
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--num_workers", type=int, default=0)
    parser.add_argument("--max_steps", type=int, default=60)
    parser.add_argument("--save", default=".")
    parser.add_argument("--ckpt_path")
    args = parser.parse_args()
    L.seed_everything(0)
    torch.set_num_threads(1)
    loader = DataLoader(Images(), batch_size=args.batch_size, num_workers=args.num_workers)
    trainer = L.Trainer(accelerator="cpu", devices=args.devices, strategy="ddp" if args.devices > 1 else "auto",
                        max_steps=args.max_steps, log_every_n_steps=1, logger=CSVLogger(args.save),
                        callbacks=[TQDMProgressBar(), ModelCheckpoint(args.save, every_n_train_steps=20, save_top_k=-1)])
    trainer.fit(Classifier(), loader, ckpt_path=args.ckpt_path)


if __name__ == "__main__":
    main()
