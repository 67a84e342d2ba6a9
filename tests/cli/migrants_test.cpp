// Command lines of other training systems, typed as their users would: each is answered by one of ours, which
// runs, or by the key that decides what they ask for.
#include <utility>
#include <vector>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

class Migrants : public InDirectory {
 protected:
  Answer isobar(const std::string& words) const {
    return shell(at("timeout 60 " + isobar_command() + " " + words + " 2>&1"));
  }
  // The command that the answer gives, without the program's name
  std::string translated(const std::string& words) const {
    const Answer a = isobar(words);
    EXPECT_EQ(a.code, 2) << a.out;
    const std::string before = " -> isobar ";
    const size_t begin = a.out.find(before);
    if (begin == std::string::npos) return "no command in: " + a.out;
    const size_t from = begin + before.size();
    return a.out.substr(from, a.out.find('\n', from) - from);
  }
  void expect_runs(const std::string& words) const {
    const Answer a = shell(
        at("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive timeout 100 " +
           isobar_command() + " " + words + " 2>&1"));
    EXPECT_EQ(a.code, 0) << words << "\n" << a.out;
  }
};

// NERSC's tutorial: submit_singlegpu.sh, submit_dataparallel.sh and submit_modelparallel.sh pass these on
TEST_F(Migrants, NerscsTutorial) {
  for (const auto& [theirs, ours] : std::vector<std::pair<std::string, std::string>>{
           {"--config=short",
            "train vit-384 --set policy.amp=tf32 --set data.limit_samples=512 --set "
            "data.limit_valid_samples=128 --set "
            "train.steps=128"},
           {"--config=short --num_data_workers 8 --amp_mode=fp16 --enable_jit",
            "train vit-384 --set data.limit_samples=512 --set data.limit_valid_samples=128 --set "
            "train.steps=128 --set "
            "data.workers=8 --set policy.amp=fp16"},
           {"--yaml_config ./config/ViT.yaml --config bs64_opt --run_num 01",
            "train vit-384 --set data.workers=8 --set policy.amp=fp16 --set train.global_batch=64 --set "
            "train.lr=1e-3 "
            "--name 01"},
           {"--config=mp --tensor_parallel=4 --context_parallel=4 --parallel_order=cp-tp-dp",
            "train vit-1536 --set policy.amp=fp16 --set layout.tp=4 --set layout.cp=4 --set "
            "layout.order=cp-tp-dp"}})
    EXPECT_EQ(translated("train " + theirs), ours) << theirs;
  const Answer none = isobar("train base.yaml --amp_mode none");
  EXPECT_NE(none.out.find("none is TF32 on an A100"), std::string::npos) << none.out;
  const std::string small = translated(
      "train base.yaml --amp_mode=bf16 --num_data_workers 1 --local_batch_size 4 --num_iters 2 --enable_jit");
  EXPECT_EQ(small,
            "train base.yaml --set policy.amp=bf16 --set data.workers=1 --set train.steps=2 --set "
            "train.global_batch=4");
  expect_runs(small);
}

// jubilant-choi/pytorch_lightning_aurora_example: project/simple_example.py
TEST_F(Migrants, LightningOnAurora) {
  EXPECT_EQ(
      translated(
          "train configs/models/mlp-classifier.yaml --strategy deepspeed_stage_2 --num_nodes 2 --devices "
          "12 --precision bf16 --batch_size 32 --hidden_dim 512 --optimizer FusedAdam"),
      "train configs/models/mlp-classifier.yaml --set policy.zero=2 --set policy.amp=bf16 --set "
      "'net.hidden=[512,512]' --set train.optimizer=adam --set train.global_batch=768 --ranks 24");
  const std::string small = translated(
      "train base.yaml --seed 42 --strategy ddp --num_nodes 1 --devices 2 --precision 32 --batch_size 2 "
      "--learning_rate 1e-3 --weight_decay 0.1 --num_workers 1 --lr_scaling square");
  EXPECT_EQ(
      small,
      "train base.yaml --set train.seed=42 --set policy.amp=none --set train.lr=1e-3 --set "
      "train.weight_decay=0.1 --set data.workers=1 --set train.lr_scaling=sqrt --set train.lr_base_batch=384 "
      "--set train.global_batch=4 --ranks 2");
  expect_runs(small);
  const Answer xpu = isobar("train base.yaml --process_group_backend xccl --accelerator xpu");
  EXPECT_NE(xpu.out.find("--accelerator has no equivalent: the engine runs on CPUs and NVIDIA GPUs"),
            std::string::npos)
      << xpu.out;
}

// akshatkaush/aurora-jax: train_multi_gpu.py, and the guide's train_multi_gpu_advanced.py
TEST_F(Migrants, AuroraInJax) {
  EXPECT_EQ(
      translated("train aurora-small --learning_rate 5e-5 --warmup_steps 1000 --epochs 20 --rollout_steps 2 "
                 "--average_rollout_loss --total_batch_size 2 --ckpt_backbone"),
      "train aurora-small --set train.lr=5e-5 --set train.warmup=1000 --set train.epochs=20 --set "
      "train.rollout=2 --set train.rollout_gradient=all --set train.global_batch=2 --set "
      "policy.recompute=full");
  EXPECT_EQ(translated("train aurora-small --batch_size 2 --pipeline_parallel"),
            "train aurora-small --set layout.pp=2 --set train.global_batch=2");
}

// LeeTZhi/graphcast: the regional precipitation net's training
TEST_F(Migrants, RegionalPrecipitation) {
  EXPECT_EQ(
      translated("train regional-gnn-rain --data rain.nc --output-dir ./checkpoints --latent-size 128 "
                 "--num-gnn-layers 8 --batch-size 8 --gradient-clip-norm 1.0 --validation-frequency 500 "
                 "--checkpoint-frequency 1000 --early-stopping-patience 10 --val-ratio .15 --use-prefetch "
                 "--prefetch-buffer-size 4 --jax-platform gpu --seed 42"),
      "train regional-gnn-rain --set data.train=rain.nc --set run.out=./checkpoints --set "
      "net.latent_size=128 "
      "--set net.num_gnn_layers=8 --set train.grad_clip=1.0 --set train.valid_every=500 --set "
      "train.checkpoint_every=1000 --set train.early_stopping_patience=10 --set data.train_fraction=0.85 "
      "--set "
      "data.workers=1 --set data.prefetch=4 --set run.device=cuda --set train.seed=42 --set "
      "train.global_batch=8");
  const Answer tpu = isobar("train regional-gnn-rain --jax-platform tpu");
  EXPECT_NE(tpu.out.find("--jax-platform has no equivalent"), std::string::npos) << tpu.out;
}

// guillaumevernieres/aibalance: torchrun scripts/train.py --config config.yaml, and keys of its file
TEST_F(Migrants, IceEmulator) {
  const std::string small =
      translated("train --config base.yaml --nproc_per_node=2 --no-distributed --world-size 1");
  EXPECT_NE(small.find("train base.yaml"), std::string::npos) << small;
  EXPECT_EQ(translated("train --config base.yaml --nproc_per_node=2 --restart-from-checkpoint runs/ice"),
            "train base.yaml --resume runs/ice --ranks 2");
  write_atomically(dir_ / "theirs.yaml",
                   "net: {kind: mlp, in_features: 14, out_features: 1}\n"
                   "training: {epochs: 100, batch_size: 1000}\n");
  const Answer keys = isobar("train theirs.yaml");
  EXPECT_EQ(keys.code, 2);
  EXPECT_NE(keys.out.find("here it is train.global_batch: 1000 on one rank"), std::string::npos) << keys.out;
}

TEST_F(Migrants, MegatronAndHuggingFace) {
  EXPECT_EQ(
      translated("train llama3-8b --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
                 "--micro-batch-size 1 --global-batch-size 128 --bf16 --sequence-parallel "
                 "--use-distributed-optimizer --recompute-granularity full"),
      "train llama3-8b --set layout.tp=2 --set layout.pp=2 --set policy.micro_batch=1 --set "
      "train.global_batch=128 --set policy.amp=bf16 --set policy.sequence_parallel=true --set policy.zero=1 "
      "--set policy.recompute=full");
  EXPECT_EQ(translated("train gpt2-124m --per_device_train_batch_size 2 --gradient_accumulation_steps 4 "
                       "--nproc_per_node 8 --fp16 --max_steps 100"),
            "train gpt2-124m --set policy.micro_batch=2 --set policy.amp=fp16 --set train.steps=100 --set "
            "train.global_batch=64 --ranks 8");
}

TEST_F(Migrants, StagesOfMegatronAreListed) {
  const Answer layout = isobar(
      "train llama3-8b --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*15|t*17L'");
  EXPECT_EQ(layout.code, 2);
  EXPECT_NE(layout.out.find("layout.stages lists the blocks of each pipeline chunk"), std::string::npos)
      << layout.out;
}

TEST_F(Migrants, SweepsAndSearchesTakeThemInTheirForm) {
  EXPECT_EQ(translated("sweep base.yaml steps=12 --num_workers 3 --print"),
            "sweep base.yaml steps=12 --print data.workers=3");
  EXPECT_EQ(translated("search llama3-8b --machine dgx-h100 --world_size 64 --bf16"),
            "search llama3-8b --machine dgx-h100 --set policy.amp=bf16 --gpus 64");
  const Answer keys = isobar("train base.yaml --set batch_size=32");
  EXPECT_NE(keys.out.find("here it is train.global_batch=32"), std::string::npos) << keys.out;
  const Answer listed = isobar("config keys tensor-model-parallel-size");
  EXPECT_NE(listed.out.find("layout.tp"), std::string::npos) << listed.out;
}

}  // namespace
}  // namespace isobar::cli
