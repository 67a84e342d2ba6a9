"""A training as users of Lightning write it: its progress bar and its table of metrics, one process a device.

    pip install lightning
    python3 bench/peers/lightning_fit.py --devices 2 --micro-batch 8 --precision bf16-mixed --steps 60 --out runs/lit

    isobar train run.yaml --ranks 2 --set run.out=runs/lit --set 'run.reads=lightning' --set 'run.command=python3
      bench/peers/lightning_fit.py --devices {ranks} --micro-batch {policy.micro_batch} --out {out}'
"""

import argparse

import lightning
import torch
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 256


class Autoencoder(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def training_step(self, batch, index):
        loss = (self.net(batch[0]) - batch[0]).pow(2).mean()
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", (self.net(batch[0]) - batch[0]).pow(2).mean(), prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--devices", type=int, default=1)
    ap.add_argument("--micro-batch", type=int, default=8)
    ap.add_argument("--precision", default="32-true")
    ap.add_argument("--workers", type=int, default=0)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    lightning.seed_everything(0)
    samples = TensorDataset(torch.randn(a.micro_batch * a.devices * a.steps // 2, WIDTH))
    trainer = lightning.Trainer(
        accelerator="auto", devices=a.devices, strategy="ddp" if a.devices > 1 else "auto", precision=a.precision,
        max_epochs=2, log_every_n_steps=5, callbacks=[TQDMProgressBar()], logger=CSVLogger(a.out),
        enable_checkpointing=False)
    loader = {"batch_size": a.micro_batch, "num_workers": a.workers}
    trainer.fit(Autoencoder(), DataLoader(samples, shuffle=True, **loader), DataLoader(samples, **loader))


if __name__ == "__main__":
    main()
