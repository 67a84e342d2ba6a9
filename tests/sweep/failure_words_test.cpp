// Classes of failures by the words of the programs, in their documented forms.

#include <gtest/gtest.h>

#include "bench/sweep/run/classify.h"

namespace isobar::sweep {
namespace {

struct WordsCase {
  records::RunClass expected;
  const char* text;
};

class FailureWordsOf : public ::testing::TestWithParam<WordsCase> {};

TEST_P(FailureWordsOf, NameTheClass) {
  const std::string text = std::string("step 7 loss 0.5\n") + GetParam().text + "\nProcess group destroyed\n";
  const auto said = failure_said_in(text);
  ASSERT_TRUE(said) << text;
  EXPECT_EQ(said->run_class, GetParam().expected) << text;
  EXPECT_EQ(std::string(GetParam().text).find(said->line), 0u) << said->line;
}

INSTANTIATE_TEST_SUITE_P(
    Documented, FailureWordsOf,
    ::testing::Values(
        // torch.cuda, since 2.5 and before
        WordsCase{records::RunClass::oom_device,
                  "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
                  "has a total capacity of 79.10 GiB of which 1.06 GiB is free."},
        WordsCase{records::RunClass::oom_device, "RuntimeError: CUDA error: out of memory"},
        // JAX
        WordsCase{records::RunClass::oom_device,
                  "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while "
                  "trying to allocate 17179869184 bytes."},
        WordsCase{records::RunClass::oom_device,
                  "XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 1.00GiB (1073741824B) "
                  "on device ordinal 0"},
        // TensorFlow, Keras' TerminateOnNaN, DeepSpeed
        WordsCase{
            records::RunClass::oom_device,
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor "
            "with shape[192,576,16,16] and type float"},
        WordsCase{records::RunClass::numeric, "Batch 12: Invalid loss, terminating training"},
        WordsCase{records::RunClass::numeric,
                  "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting "
                  "run."},
        WordsCase{records::RunClass::oom_host, "srun: error: influ2: task 0: Out Of Memory"},
        WordsCase{records::RunClass::oom_host,
                  "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: "
                  "can't allocate memory: you tried to allocate 4000000000000 bytes."},
        WordsCase{records::RunClass::oom_host,
                  "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an "
                  "array with shape (1000000, 1000000) and data type float64"},
        // bash, torchrun, Slurm, and a loader's worker
        WordsCase{records::RunClass::oom_host,
                  "/bin/sh: line 1: 12345 Killed                  python train.py"},
        WordsCase{records::RunClass::oom_host, "Killed"},
        WordsCase{records::RunClass::oom_host, "  traceback : Signal 9 (SIGKILL) received by PID 4711"},
        WordsCase{records::RunClass::oom_host,
                  "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step "
                  "tasks have been OOM Killed."},
        WordsCase{records::RunClass::oom_host,
                  "[ 12.3] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)"},
        WordsCase{records::RunClass::oom_host,
                  "RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed. "},
        WordsCase{records::RunClass::hang,
                  "[rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation "
                  "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 "
                  "milliseconds before timing out."},
        WordsCase{records::RunClass::hang,
                  "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
                  "1800000ms for recv operation to complete"},
        WordsCase{records::RunClass::crash,
                  "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed "
                  "by peer [10.0.0.2]:42119"},
        WordsCase{records::RunClass::crash,
                  "RuntimeError: [pair.cc:598] Read error [127.0.0.1]:3021: Connection reset by peer"},
        WordsCase{records::RunClass::numeric,
                  "ValueError: The loss returned in `training_step` is nan. Loss is nan, stopping "
                  "training"},
        WordsCase{records::RunClass::numeric,
                  "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output."},
        WordsCase{records::RunClass::numeric,
                  "FloatingPointError: invalid value (nan) encountered in jit(step)"},
        WordsCase{records::RunClass::bad_config, "train.py: error: unrecognized arguments: --tp 2"},
        WordsCase{records::RunClass::bad_config, "train.py: error: argument --mbs: invalid int value: 'x'"},
        WordsCase{records::RunClass::bad_config, "Could not override 'optim.lrr'."},
        WordsCase{records::RunClass::bad_config,
                  "omegaconf.errors.ConfigAttributeError: Key 'lrr' is not in struct"},
        WordsCase{records::RunClass::launch_fail, "ModuleNotFoundError: No module named 'deepspeed'"},
        WordsCase{records::RunClass::launch_fail,
                  "RuntimeError: Found no NVIDIA driver on your system. Please check that you "
                  "have an NVIDIA GPU and installed a driver"},
        WordsCase{records::RunClass::launch_fail,
                  "ImportError: libcudart.so.12: cannot open shared object file: No such file"}));

TEST(FailureWords, AProgramThatTrainedLackedNoModule) {
  const std::string text =
      "WARNING: ImportError: No module named flash_attn, using the slow one\nstep 7 loss 0.5\n"
      "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.2]:42119\n";
  const auto class_after = [&](int64_t step) {
    return verdict_of_words(text, {.started = true, .last_event = "step", .last_step = step})->run_class;
  };
  EXPECT_EQ(class_after(-1), records::RunClass::launch_fail);
  EXPECT_EQ(class_after(7), records::RunClass::crash);
}

TEST(FailureWords, MemoryCountsBeforeTheConnectionsThatItCosts) {
  const std::string text =
      "[rank0]: RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.2]:42119\n"
      "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
  EXPECT_EQ(failure_said_in(text)->run_class, records::RunClass::oom_device);
  const auto v = verdict_of_words(text, {.started = true, .last_event = "step", .last_step = 7});
  EXPECT_EQ(v->message.find("out of device memory after step 7: [rank1]: torch.OutOfMemoryError"), 0u)
      << v->message;
  EXPECT_FALSE(failure_said_in("step 7 loss 0.5\nall is well\n"));
}

}  // namespace
}  // namespace isobar::sweep
