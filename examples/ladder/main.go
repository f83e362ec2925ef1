// Command ladder encodes a video into a ladder of renditions, every encode
// under a lease of the GPU pool. It shows how a worker uses gpupool: variant.go
// has the rungs and the goroutines that encode them, arbiter.go lends idle GPUs
// to slow rungs, report.go tells the load, gpus.go finds the GPUs and addresses
// them, ffmpeg.go runs the programs. The rest is the command around it:
// source.go cuts the video into segments, status.go shows the progress, and
// main.go reads the arguments and moves the files.
//
//	ladder [-i FILE] [-o DIR] [-gpus auto|N] [-seconds S] [-segment S] [-ladder 720,480,360,240] [-tick 1s]
//
// It needs the programs ffmpeg and ffprobe, version 5.1 or newer. Renditions
// have no sound.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	// With SIGPIPE taken, a reader that closes stdout early makes the writes
	// fail; otherwise it would end the process on the spot, and leave the
	// encoders running.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	endings := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		endings = append(endings, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), endings...)
	// A second Ctrl-C ends a process that hangs on a stuck encoder.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command without the process around it. It returns the exit status:
// 0, 1 for a failure, 2 for bad arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "ladder:", err)
		return 2
	}
	err = encodeLadder(ctx, opts, stdout, stderr)
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("stopped, with nothing written: %w", context.Cause(ctx))
	}
	if err != nil {
		fmt.Fprintln(stderr, "ladder:", err)
		return 1
	}
	return 0
}

type options struct {
	in      string
	out     string
	gpus    int // how many to simulate, or auto
	seconds float64
	segment float64
	heights []int
	tick    time.Duration
}

// auto stands for the GPUs of the host.
const auto = -1

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("ladder", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.in, "i", "", "the video `file` to encode (default: a generated test clip)")
	flags.StringVar(&opts.out, "o", "ladder-out", "the `folder` for the renditions")
	gpus := flags.String("gpus", "auto", "auto for the GPUs of this host, or the `number` of GPUs to simulate")
	flags.Float64Var(&opts.seconds, "seconds", 10, "the length of the generated clip")
	flags.Float64Var(&opts.segment, "segment", 2, "the length of a segment in seconds")
	ladder := flags.String("ladder", "720,480,360,240", "the `heights` of the renditions")
	flags.DurationVar(&opts.tick, "tick", time.Second, "the time between two load reports")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(stderr)
		flags.Usage()
	}
	if err != nil {
		return opts, err
	}
	opts.gpus, err = parseGPUs(*gpus)
	if err != nil {
		return opts, err
	}
	opts.heights, err = parseHeights(*ladder)
	if err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q: name the input with -i", flags.Arg(0))
	case opts.out == "":
		return opts, errors.New("-o is empty: name a folder for the renditions")
	case !isLength(opts.seconds):
		return opts, fmt.Errorf("-seconds %v: want 0.1 to 86400", opts.seconds)
	case !isLength(opts.segment):
		return opts, fmt.Errorf("-segment %v: want 0.1 to 86400", opts.segment)
	case opts.tick <= 0:
		return opts, fmt.Errorf("-tick %v: want more than 0", opts.tick)
	}
	return opts, nil
}

func parseGPUs(text string) (int, error) {
	if text == "auto" {
		return auto, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1024 {
		return 0, fmt.Errorf("-gpus %s: want auto, or 0 to 1024", text)
	}
	return n, nil
}

func isLength(seconds float64) bool {
	return seconds >= 0.1 && seconds <= 86400
}

func parseHeights(ladder string) ([]int, error) {
	var heights []int
	for text := range strings.SplitSeq(ladder, ",") {
		height, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || height%2 != 0 || height < 16 || height > 4320 {
			return nil, fmt.Errorf("-ladder %s: %q is not an even height from 16 to 4320", ladder, text)
		}
		if slices.Contains(heights, height) {
			return nil, fmt.Errorf("-ladder %s: %d is there twice", ladder, height)
		}
		heights = append(heights, height)
	}
	return heights, nil
}

// encodeLadder does the job in a folder of its own inside the renditions', and
// moves them into place when all are whole: a run that fails before writes
// nothing.
func encodeLadder(ctx context.Context, opts options, stdout, stderr io.Writer) (err error) {
	begin := time.Now()
	for _, program := range []string{"ffmpeg", "ffprobe"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not on the PATH: install ffmpeg (Debian: apt-get install ffmpeg)", program)
		}
	}
	removeMade, err := makeFolder(opts.out)
	if err != nil {
		return fmt.Errorf("the folder for the renditions: %w", err)
	}
	defer func() {
		if err != nil {
			removeMade()
		}
	}()
	work, err := os.MkdirTemp(opts.out, ".ladder-")
	if err != nil {
		return fmt.Errorf("the folder for the renditions: %w", err)
	}
	defer os.RemoveAll(work)

	status := &status{out: stderr, terminal: isTerminal(stderr)}
	path := opts.in
	if path == "" {
		status.line("making a test clip")
		path = filepath.Join(work, "clip.mp4")
		if err := generateClip(ctx, path, opts.seconds); err != nil {
			return err
		}
	}
	source, err := openSource(ctx, path)
	if err != nil {
		return err
	}
	gpus := simulated(opts.gpus)
	if opts.gpus == auto {
		host, err := detectHost(status)
		if err != nil {
			return err
		}
		gpus, err = host.probe(ctx, source, opts.heights, work, 30*time.Second, status)
		if err != nil {
			return err
		}
	}
	w := newWorker(source, gpus, opts, work, stdout, status)
	for _, r := range w.rungs {
		if err := checkTarget(r.file, path); err != nil {
			return err
		}
	}
	if err := w.run(ctx); err != nil {
		return err
	}
	for _, r := range w.rungs {
		if err := os.Rename(r.joined(), r.file); err != nil {
			return err
		}
	}
	return w.report.done(w.rungs, time.Since(begin))
}

// makeFolder makes a folder and its parents, and returns what removes those that
// it made, as far as they are empty.
func makeFolder(path string) (removeMade func(), err error) {
	var made []string
	for dir, below := filepath.Clean(path), ""; dir != below; dir, below = filepath.Dir(dir), dir {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			break
		}
		made = append(made, dir)
	}
	return func() {
		for _, dir := range made {
			os.Remove(dir)
		}
	}, os.MkdirAll(path, 0o755)
}

// checkTarget refuses to replace anything but an earlier rendition.
func checkTarget(file, source string) error {
	target, err := os.Lstat(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !target.Mode().IsRegular() {
		return fmt.Errorf("%s is in the way: move it, or choose another folder with -o", file)
	}
	if in, err := os.Stat(source); err == nil && os.SameFile(in, target) {
		return fmt.Errorf("%s is the source: choose another folder with -o", file)
	}
	return nil
}
