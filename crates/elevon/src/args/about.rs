//! What `--help` says of the commands: what they are for, and examples.

pub(super) const KERNELS_EXAMPLES: &str = "\
Examples:
  elevon kernels                 the versions
  elevon kernels 6.12            the rules of one, and whether each was measured
  elevon kernels 6.1 7.3         what changes for I/O from one to the other, who notices, how it is known
";

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  elevon run job.fio                                     on the default simulated device
  elevon run job.fio --device hdd-7200 --scheduler mq-deadline:read_expire=100
  elevon run job.fio --device ./disk.img                 really reads and writes ./disk.img
  elevon run job.fio --device ./disk.img --cache 1GiB    the same through a page cache of our own
  elevon run job.fio --kernel 6.1 --trace run.ftrace     what an old kernel would have done
  elevon run job.fio --tenants limits.toml               with limits and weights for the cgroups of its jobs
  elevon run job.fio --output-format json | jq '.jobs[0].read.iops'

A JOB.fio of - is read from stdin, and so is --tenants -.

Signals: SIGINT, SIGTERM and SIGHUP stop the run: what is in flight is waited for, what a cache holds dirty is written, and the report covers what ran until then. Another of them gives up, if it comes a second or more after the first. SIGUSR1 prints the report so far, on stderr if stdout is JSON, and the run goes on.

Exit status: 0 done, 1 the run failed (I/O errors that the job does not ignore) or something could not be written, 2 bad input, 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP.";

pub(super) const COMPARE_ABOUT: &str = "\
Run one job file, or replay one trace, under several stacks and put them side by side.

Which of the two the file is, is found by its content. A trace is replayed as `elevon replay` does it (--closed, --speed, --dev and the others); the table has a block for each process, and each column is the same processes under another stack.";

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  elevon compare job.fio --vs '--scheduler mq-deadline' --vs '--set fill=max-sectors'
  elevon compare job.fio --device ufs-4.0 --vs '--kernel 6.1' --html compare.html
  elevon compare trace.txt --closed --device @my-disk.toml --scheduler mq-deadline --vs '--scheduler bfq'
  elevon compare job.fio --vs '--scheduler bfq' --seeds 20    is the difference more than chance?
  elevon compare job.fio --vs '--scheduler bfq' --output-format json | jq '.jobs[] | {jobname, iops, lat_p99_ns}'
  elevon compare sda.blktrace.0 --set max_sectors_kb=512 --vs '--set fill=max-sectors'
  perf script | elevon compare - --vs '--scheduler kyber'

A file of - is a trace on the standard input.

Exit status: 0 done, 1 a run failed or something could not be written, 2 bad input, 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP (the table then has what ran until then, and names what did not).";

pub(super) const SWEEP_ABOUT: &str = "\
Run one job file under many options, settings and seeds, on all cores.

Every combination of the values of --over is a point (or a sample of them, --sample), and every point runs with every seed. Simulated runs only: each is what `elevon run` does with the same options, and its row in the results has that command. The results do not depend on the number of threads. What is done is kept in the folder of the results; after an interrupt, or a crash, the same command goes on where it stopped.

KEY is an option of jobs (iodepth, bs; reader:bs for the job [reader]), a queue setting (nr_requests), or device, scheduler, kernel, buffers, cpu-cost, memory, fault, tenants. VALUES is a list, with commas, or with semicolons where values hold commas; or a range: 1..256:*2 (doubled), 10..100:+10, 1..8.";

pub(super) const SWEEP_EXAMPLES: &str = "\
Examples:
  elevon sweep job.fio --over 'iodepth=1..256:*2' --over scheduler=none,bfq --seeds 10
  elevon sweep job.fio --over 'scheduler=none;bfq:low_latency=0,slice_idle=0' --seeds 20 --compare scheduler=none
  elevon sweep job.fio --over 'bs=4k..1m' --over 'iodepth=1..128' --sample sobol:256 -o points
  elevon sweep plan.toml                                  the same in a file; docs/reference/sweep.md has its keys
  elevon sweep plan.toml --shard 3/8 -o out               one of eight parts, for Slurm, Kubernetes or GNU parallel
  elevon sweep merge out                                  when all parts are done: the results of one machine, byte for byte

The folder of the results (JOB.sweep, or -o) then has results.csv, .jsonl and .parquet with a row for each job of each run (the job * is all of them together, jobs of one name are reader#1, reader#2), summary.txt with what is printed here, and index.html with curves and heat maps.

Exit status: 0 done, 1 a run failed (its row says why) or something could not be written, 2 bad input, 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP.";

pub(super) const TUNE_ABOUT: &str = "\
Search for the options under which a job does best, within bounds.

A space of no more points than --trials is tried whole. Of a larger one a third of the trials is a Sobol sample, and the others are neighbours of the best so far. With two goals the result is the front of the trials that no other is better than in both. The search is seeded: the same command gives the same result, on any number of cores. Every trial runs with three seeds unless --seeds gives others. The best few run again with ten seeds that the search did not use: these runs give the answer, its 95 % interval, and say from which of the next best it cannot be told.

FIGURE is a column of `elevon sweep`'s results: iops, bw_bytes_per_second (throughput), lat_p50_ns (p50), lat_p99_ns (p99), lat_p99_9_ns (p99.9), lat_mean_ns (mean), ...; of all jobs together, or of one: reader:p99, or reader#2:p99 where several are named reader.";

pub(super) const TUNE_EXAMPLES: &str = "\
Examples:
  elevon tune job.fio --maximise iops --subject-to 'p99<2ms' --over 'iodepth=1..256' --over scheduler=none,bfq,kyber
  elevon tune job.fio --maximise throughput --minimise reader:p99 --over 'nr_requests=4..256' --over 'scheduler=mq-deadline;aileron' --html front.html
  elevon tune job.fio --minimise p99 --over 'bs=4k..1m:*2' --seeds 5 --output-format json | jq '.trials[.best[0]]'

Exit status: 0 done, 1 no trial keeps the bounds, or all failed, or something could not be written, 2 bad input, 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP (what was tried is reported).";

pub(super) const CALIBRATE_ABOUT: &str = "\
Measure a device, simulated or real, and print what io.cost.model wants to know of it.

io.cost shares a device by the time that I/Os take of it, which it computes from six figures: for reads and for writes the bandwidth of large sequential blocks (1 MiB, depth 16), and how many sequential and random blocks of 4 KiB the device does a second (depth 128). Six runs measure them, one after the other, without a scheduler and without merging, so that it is the device that is measured. A fast device is not well described by the figures of a slow one: without a model of its own, weights on it share out the wrong thing.

With a TRACE of block events nothing is measured: a device is fitted to the latencies that the trace shows, each figure of the fit is shown beside the trace's, and -o saves it as a file for --device @FILE. The device is servers behind one FIFO (what a read, a write and a flush hold one for, by size) or flash, whichever comes nearer: a flash profile is driven by the trace's requests, and its parameters (dies, links, write buffer, programs) are changed until the latencies are those of the trace. --like says which.";

pub(super) const CALIBRATE_EXAMPLES: &str = "\
Examples:
  elevon calibrate                                       the default simulated device
  elevon calibrate --device hdd-7200 --seconds 10        slow devices need time to be measured well
  elevon calibrate --device /dev/nvme0n1                 reads only; what it stores stays as it is
  elevon calibrate --device /dev/nvme0n1 --overwrite-data    and writes: destroys what it stores
  elevon calibrate --output-format json | jq -r .line
  elevon calibrate trace.txt -o my-disk.toml             the device of a trace; then: elevon replay --device @my-disk.toml ...
  elevon calibrate trace.txt --like ufs-3.1 -o phone.toml    a flash device, by way of a profile that is like it

Write the line to io.cost.model of the root cgroup, and 'MAJ:MIN enable=1' to io.cost.qos. Where the device was a file, or simulated, put the numbers of yours in place of MAJ:MIN (lsblk shows them).";

pub(super) const INSPECT_ABOUT: &str = "\
Say what a trace of block events shows: problems first, then latency by stage, processes, depth, utilisation.

Reads ftrace text (the kernel's trace file, trace-cmd report, perf script, pages of systrace), Perfetto traces, blktrace's binary files, what blkparse, biosnoop, iosnoop and babeltrace (LTTng) print, fio's iolog, disk I/O of Windows (xperf, DiskMon), and published traces (MSR Cambridge, Alibaba, Tencent, Systor, SPC, FIU, libCacheSim), compressed with gzip, xz or zstd or not; the format is found by the content (elevon formats lists them). Every bio and request of one device is followed from queue to completion through splits, merges, requeues and flushes. Findings come first, each with when, who, how much and what to try; a trace without a problem says so. No latency is computed across a gap of lost events.";

pub(super) const INSPECT_EXAMPLES: &str = "\
Examples:
  elevon inspect trace.txt                               ftrace text; trace.txt.gz and trace.txt.zst, too
  elevon inspect sda.blktrace.0                          with the files of the other CPUs beside it; also: inspect sda
  perf script | elevon inspect -                         from the standard input
  elevon inspect trace.txt --dev 8:0                     one device (or partition) of several; lsblk shows the numbers
  elevon inspect trace.txt --from 2s --until 5s --process postgres       three seconds of one process
  elevon inspect biosnoop.txt --dev loop2                by the name that the trace has of it
  elevon inspect trace.txt --output-format json | jq '.findings[] | {kind, title, processes}'
  elevon inspect trace.txt --output-format json | jq .events
  elevon inspect trace.txt --html trace.html             a page with a timeline and heat maps
  elevon inspect trace.txt --requests requests.csv       a row for each request, for a notebook or a spreadsheet

Stages as blktrace names them: Q queued, G request allocated, I inserted into the scheduler, D issued to the driver, C completed. To record a trace: echo 1 > /sys/kernel/tracing/events/block/enable, and cat /sys/kernel/tracing/trace afterwards. docs/reference/inspect.md explains every finding with its threshold, every table and every key of the JSON.

Exit status: 0 done, 1 the trace could not be read to its end or something could not be written, 2 bad input: no trace, a trace without block events, several devices and no --dev.";

pub(super) const CONVERT_ABOUT: &str = "\
Write the events of a trace in another format.

Reads what `elevon inspect` reads and writes every event of it, in order of time, in bounded memory. What a format has no place for is left out: .ftrace keeps the events as the kernel prints them, .csv and .parquet every field, .iolog only what was submitted.";

pub(super) const CONVERT_EXAMPLES: &str = "\
Examples:
  elevon convert trace.txt trace.parquet                 a row for each event, for a notebook
  elevon convert trace.perfetto-trace trace.blktrace --dev 8:0     for blkparse and btt: blkparse -i trace
  perf script | elevon convert - trace.iolog             for fio --read_iolog

docs/reference/trace-formats.md says what each format has and has not.

Exit status: 0 done, 1 the trace could not be read to its end or something could not be written, 2 bad input.";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  elevon serve disk.img --listen unix:/run/disk.sock     one file; clients find it as nbd+unix:///disk.img?socket=...
  elevon serve hdd-7200 --listen tcp:localhost:10809     a slow disk in real time, its bytes in memory
  elevon serve hdd-7200 --listen unix:s --fault error:ppm=100,status=io    one that breaks
  elevon serve elevon.toml                               several devices, exports and tenants: docs/reference/serve.md
  elevon serve elevon.toml --check                       say what is wrong with it, and serve nothing

Exit status: 0 done, after SIGINT or SIGTERM, 1 the machine failed or something that was written did not reach its device, 2 bad input.";

pub(super) const CAPTURE_ABOUT: &str = "\
Record the block events of a device, with its settings, for inspect, calibrate and replay.

Needs root. Events are taken from the kernel's tracefs by a trace instance of its own, so that nobody else's tracing is touched; it is removed at the end, also after Ctrl-C. OUT is ftrace text with times in nanoseconds, in order of time over all CPUs. Its head holds the kernel's version, the device's queue settings, its scheduler with tunables, and this command. Events that were lost are counted, and their place is in the text.";

pub(super) const CAPTURE_EXAMPLES: &str = "\
Examples:
  elevon capture /dev/nvme0n1 --seconds 10 trace.txt     then: elevon inspect trace.txt
  elevon capture /dev/sda1 trace.txt.zst                 until Ctrl-C, packed; the whole disk, and inspect --dev 8:1 shows the partition
  elevon capture /dev/sda --seconds 60 --buffer 32MiB trace.txt    for a very busy device

What is recorded is kept in unnamed files in the folder of OUT, and written as text when the recording has ended. Choose a folder on another disk, or the trace has that I/O too. docs/reference/capture.md has the same with blktrace, trace-cmd, perf and Perfetto.

Exit status: 0 done, 1 something went wrong on the way, 2 it could not be recorded: no root, no tracefs, no block events in the kernel, no block device, OUT exists, disk full; 130, 143 or 129 if SIGINT, SIGTERM or SIGHUP ended it before its time (OUT has what was recorded until then).";

pub(super) const REPLAY_ABOUT: &str = "\
Do the I/O of a trace again, under any device, scheduler, kernel and settings, and report as `elevon run` does: a row for each process.

Bios enter where they did in the kernel, before splits and merges (from queue events; a trace without them gives requests as they were issued, and the report says so), with their process, cgroup, priority and flags. In an open loop, the default, they enter at the times of the trace, whatever the device does; --closed lets each process wait for its completions, as it did. Latency is that of a bio, from its submission to its completion.

On a simulated device, the scheduler with its tunables, the kernel version, max_sectors_kb, nr_requests and nomerges are as they were recorded, where the trace tells them and no option does.";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  elevon replay trace.txt                                 as timed, on the default simulated device
  elevon replay trace.txt --closed --scheduler bfq --device @my-disk.toml
  elevon replay trace.txt --dev 8:0 --set max_sectors_kb=1024 --output-format json | jq '.jobs[] | {jobname, read}'
  elevon replay trace.txt --closed --scheduler bfq --ioprio backup=idle   as ionice -c3 of a process would do
  elevon replay trace.txt --from 2s --until 5s            a part of the trace
  elevon replay trace.txt --speed 2                       twice as fast
  elevon replay sda.blktrace.0 --device /dev/nvme0n1      only reads and flushes; --allow-writes destroys what it stores

docs/explanation/replay.md tells how dependencies are inferred and what does not survive a trace.

Exit status: as `elevon run`; 2 for a trace that cannot be replayed.";

pub(super) const ADVISE_ABOUT: &str = "\
Search for a scheduler, queue limits and priorities that serve the processes of a trace better, and print the best few with the lines that set them.

A device is fitted to the trace (as `elevon calibrate` does), and the processes of the trace do their I/O again on it in a closed loop under many configurations: schedulers with their main tunables, nr_requests, max_sectors_kb, the device's queue depth where it can be set, and of processes priorities (ionice), weights (IOWeight, by BFQ or io.cost), limits (io.max) and latency targets (io.latency). Each is compared with the replay as captured, process by process.

The replay as captured is also the check: how far it is off from the trace is the error of every prediction, and a gain within it counts for nothing, while a loss counts whole. What is proposed gains beyond that error, and loses in no half of the trace that is long enough to tell. If nothing does, the answer is that no change is worth it.";

pub(super) const ADVISE_EXAMPLES: &str = "\
Examples:
  elevon advise trace.txt                                 for all processes: throughput, p50 and p99
  elevon advise trace.txt --goal p99 --for postgres       what postgres waits for, whatever it costs others (--max-loss)
  elevon advise trace.txt --goal throughput
  elevon advise trace.txt --goal fair                     the process that is slowed down most by the others
  elevon advise trace.txt --scheduler mq-deadline --set nr_requests=64    what it was captured under, if the trace does not say
  elevon advise trace.txt --device @my-disk.toml          a device of your own, saved by elevon calibrate TRACE -o
  elevon advise trace.txt --output-format json | jq -r '.proposals[0].set.udev[]'

Goals: balanced (the default) is the mean gain over processes and over throughput, median and 99th percentile of each, as ratios; p99, p50 and throughput are one of them; fair is the speed of the process that is slowed down most, against what it has alone. Latency counts only where somebody waits: for reads, synchronous writes and flushes, not for write-back.

To record a trace: elevon capture DEVICE --seconds 30 trace.txt; it notes the scheduler and the settings, too. docs/explanation/advise.md tells how it searches, what a figure is worth, and what it cannot know.

Exit status: 0 done, with or without a proposal, 2 bad input: no trace, too few I/Os, an unknown process.";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  elevon completions bash > ~/.local/share/bash-completion/completions/elevon
  elevon completions zsh > \"${fpath[1]}/_elevon\"
  elevon completions fish > ~/.config/fish/completions/elevon.fish";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  elevon man ~/.local/share/man/man1    then: man elevon-run";

pub(super) const REPRODUCE_ABOUT: &str = "\
Run a published experiment again, and print the published figures beside those of the runs.

An experiment is a TOML file. It says which fio jobs run and over which values (axes), which figures were published and by whom, which number is calibrated on which of them, what the report shows, and what has to hold within which tolerance. Five experiments are part of the command; docs/explanation/proposals.md has their proposals. A name that ends in .toml is a file of your own, with its job files in the same folder; docs/reference/reproduce.md describes every key, with an example. All runs are simulated, and give the same figures each time.";

pub(super) const REPRODUCE_EXAMPLES: &str = "\
Examples:
  elevon reproduce                               the experiments
  elevon reproduce io-ticks --html page.html     one of them, also as a page
  elevon reproduce my-ssd.toml                   an experiment of your own

A small one: at which latency does a device have the published reads a second?

  title = \"my-ssd\"
  [[published]]
  source = \"its data sheet\"
  figures = { iops = 12000 }
  [[run]]
  name = \"one\"
  job = \"random.fio\"
  options = \"--device slots:slots=8,bandwidth=2GB/s,size=64GiB,latency={latency}ns\"
  fit = { name = \"latency\", from = 1000, to = 1000000, measure = \"1 / run.iops\", meets = \"1 / published.iops\" }
  [[section]]
  [[section.part]]
  figures = \"random reads\"
  expected = \"data sheet\"
  rows = [{ name = \"reads\", unit = \"1/s\", expected = \"published.iops\", ours = \"one[0].iops\", tolerance = 1 }]
  [[section.part]]
  paragraph = \"A latency of {one[0].latency / 1000:.1} us meets it.\"

Exit status: 0 done, 1 a run failed, a figure is outside of its tolerance, a check does not hold, or something could not be written, 2 bad input, 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP.";

pub(super) const DEVICES_EXAMPLES: &str = "\
Examples:
  elevon devices                           the simulated devices
  elevon devices hdd-7200                  one of them; @my-disk.toml shows a device of your own
  elevon devices hdd-7200 --kernel 6.1     the attributes of its queue under Linux 6.1

Exit status: 0 done, 1 something could not be written, 2 bad input.";

pub(super) const FAULTS_EXAMPLES: &str = "\
Examples:
  elevon faults          the kinds of faults
  elevon faults error    the keys of one, for elevon run job.fio --fault error:ppm=100

Exit status: 0 done, 1 something could not be written, 2 bad input.";

pub(super) const FORMATS_EXAMPLES: &str = "\
Examples:
  elevon formats         the formats of traces that elevon inspect and others read
  elevon formats snoop   one of them: what it is, and what its events lack

A format is found by the content of a file. docs/reference/trace-formats.md says more of each.

Exit status: 0 done, 1 something could not be written, 2 bad input.";

pub(super) const SCHEDULERS_EXAMPLES: &str = "\
Examples:
  elevon schedulers        the schedulers, and the settings of queue and page cache
  elevon schedulers bfq    one with its tunables, for elevon run job.fio --scheduler bfq:low_latency=0

Exit status: 0 done, 1 something could not be written, 2 bad input.";
