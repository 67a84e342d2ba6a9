// The readers that run.reads names. Each takes the lines that it knows, and keeps what one line says about
// the next:
//
//   auto        all of them, by line
//   json        objects of JSON with a step, and keys as loggers name them (quantities.h)
//   megatron    Megatron-LM and its forks            nemo        NeMo, 1 and 2
//   torchtitan  "step: 10  loss:  8.1  …  tps: 1,234"
//   deepspeed   its engine, pipeline engine and timer
//   trainer     Hugging Face's Trainer: its bar and its dicts
//   lightning   its progress bar; tqdm: any other of a training
//   timm        and others that count batches in brackets: torchvision, mmcv, mmengine, Swin
//   detectron2  "iter: 19  total_loss: 0.9  time: 0.4012  …  max_mem: 5567M"
//   composer    blocks of Composer, llm-foundry and OLMo: a step, and then a number a line
//   mlperf      ":::MLLOG" events                    nersc       NERSC's ViT: a line an epoch
//   aurora-jax, regional-gnn, ufs                    three further codes of weather models
//   lines       "step 12 … loss 0.5 … 33.1 ms", the names and units in any order
//   csv:PATH, tensorboard:PATH    files that the program writes (followed_files.h)
//   a line of one's own (own_line.h)
//
// run.reads may hold several, a line each.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "bench/logs/forms/own_line.h"

namespace isobar::logs {

struct ReaderUse {
  double batch = 0, tokens = 0;  // samples of a step; tokens of a sample, 0: not a net of tokens
  std::string file;              // of the specification, for errors
};

/// The readers of one line of run.reads, with their names. Throws ConfigError for words that are none.
std::vector<std::pair<std::string, LineReader>> readers_named(const std::string& reads, const ReaderUse& use);

}  // namespace isobar::logs
