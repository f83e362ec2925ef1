//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
)

// The tests run the real ffmpeg. wrapFFmpeg puts a shell script before it on
// the PATH, in which $REAL is the program.
func wrapFFmpeg(t *testing.T, script string) {
	t.Helper()
	program, err := exec.LookPath("ffmpeg")
	require.NoError(t, err, "the ladder's tests need ffmpeg")
	folder := t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\nREAL='%s'\n%s\n", program, script)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ffmpeg"), []byte(text), 0o755))
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// message is any line of stdout.
type message struct {
	Type            string
	GpuPool         []gpupool.GpuLeaseEntry `json:"gpu_pool"`
	PendingClaimers int                     `json:"pending_claimers"`
	Stats           gpupool.Stats
	Rungs           []struct {
		Height, Frames, Segments int
		HelperSegments           int `json:"helper_segments"`
		File                     string
	}
}

func messages(t *testing.T, stdout []byte) []message {
	t.Helper()
	var all []message
	for line := range bytes.Lines(stdout) {
		var m message
		require.NoError(t, json.Unmarshal(line, &m), "%s", line)
		all = append(all, m)
	}
	return all
}

// ladder runs the command and returns what it said.
func ladder(t *testing.T, args ...string) []message {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), args, &stdout, &stderr), "%s", &stderr)
	return messages(t, stdout.Bytes())
}

func makeClip(t *testing.T, seconds float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	require.NoError(t, generateClip(t.Context(), path, seconds))
	return path
}

// generate has ffmpeg make a file from a source of its own, such as testsrc2.
func generate(t *testing.T, source, file string, options ...string) {
	t.Helper()
	args := slices.Concat([]string{"-nostdin", "-v", "error", "-f", "lavfi", "-i", source}, options, []string{file})
	_, err := command(t.Context(), nil, "ffmpeg", args...)
	require.NoError(t, err)
}

func files(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// requireRendition checks the size of a rendition, and that it has every frame
// of the clip once, in order and at its time: a frame out of place differs from
// the clip's by far more than the encoder makes it.
func requireRendition(t *testing.T, clip, file string, height int) {
	t.Helper()
	output, err := command(t.Context(), nil, "ffprobe", "-v", "error", "-select_streams", "v",
		"-show_entries", "stream=height", "-of", "csv=p=0", file)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(height), strings.TrimSpace(string(output)))

	want, err := openSource(t.Context(), clip)
	require.NoError(t, err)
	got, err := openSource(t.Context(), file)
	require.NoError(t, err)
	require.Len(t, got.frames, len(want.frames))
	for i, frame := range got.frames {
		// Since the first; within a millisecond, the coarsest clock of the clips.
		require.InDelta(t, want.frames[i].time-want.frames[0].time, frame.time-got.frames[0].time, 0.0011, "frame %d", i)
	}

	statistics := filepath.Join(t.TempDir(), "psnr")
	_, err = command(t.Context(), nil, "ffmpeg", "-nostdin", "-v", "error", "-i", file, "-i", clip, "-lavfi",
		fmt.Sprintf("[0:v]settb=1/30,setpts=N[a];[1:v]scale=-2:%d,settb=1/30,setpts=N[b];[a][b]psnr=stats_file=%s", height, statistics),
		"-fps_mode", "passthrough", "-f", "null", "-")
	require.NoError(t, err)
	lines, err := os.ReadFile(statistics)
	require.NoError(t, err)
	compared := 0
	for line := range strings.Lines(string(lines)) {
		_, after, _ := strings.Cut(line, "psnr_avg:")
		psnr, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
		require.NoError(t, err)
		require.Greater(t, psnr, 31.0, "%s: %s", file, line)
		compared++
	}
	require.Equal(t, len(want.frames), compared)
}

// requireConsistent checks the messages of a whole run.
func requireConsistent(t *testing.T, all []message, gpus int) {
	t.Helper()
	require.GreaterOrEqual(t, len(all), 3)
	require.Equal(t, "hello", all[0].Type)
	require.Equal(t, "done", all[len(all)-1].Type)
	loads := all[1 : len(all)-1]
	for _, load := range loads {
		require.Equal(t, "worker_load", load.Type)
		require.Len(t, load.GpuPool, gpus)
		require.Equal(t, gpus, load.Stats.Capacity)
		require.Equal(t, load.Stats.PendingClaimers, load.PendingClaimers)
		for i, entry := range load.GpuPool {
			require.Equal(t, all[0].GpuPool[i].GpuDevice, entry.GpuDevice)
			require.Equal(t, entry.Leased, !entry.LeasedSince.IsZero())
			require.False(t, !entry.Leased && entry.Label != "")
		}
	}
	last := loads[len(loads)-1]
	require.Zero(t, last.Stats.Leased)
	require.Zero(t, last.PendingClaimers)
	require.False(t, slices.ContainsFunc(last.GpuPool, func(e gpupool.GpuLeaseEntry) bool { return e.Leased }))
}

func TestALadderUnderTwoGPUs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	wrapFFmpeg(t, fmt.Sprintf(`
[ -n "$SIMULATED_GPU" ] || exec "$REAL" "$@"
echo begin "$SIMULATED_GPU" >>'%[1]s'
"$REAL" "$@"
status=$?
echo end "$SIMULATED_GPU" >>'%[1]s'
exit $status`, log))
	clip, out := makeClip(t, 4), t.TempDir()

	all := ladder(t, "-i", clip, "-o", out, "-gpus", "2", "-segment", "0.5", "-ladder", "240,180,120", "-tick", "50ms")
	requireConsistent(t, all, 2)
	done := all[len(all)-1]
	require.ElementsMatch(t, []string{"240p.mp4", "180p.mp4", "120p.mp4"}, files(t, out))
	require.True(t, slices.ContainsFunc(all, func(m message) bool {
		return slices.ContainsFunc(m.GpuPool, func(e gpupool.GpuLeaseEntry) bool { return e.Label == "helper of 240p" })
	}))
	helped := 0
	for i, height := range []int{240, 180, 120} {
		rung := done.Rungs[i]
		require.Equal(t, height, rung.Height)
		require.Equal(t, 120, rung.Frames)
		require.Equal(t, 8, rung.Segments)
		helped += rung.HelperSegments
		requireRendition(t, clip, rung.File, height)
	}
	require.Positive(t, helped, "no helper helped")
	require.Less(t, helped, 24)

	// Under each lease one process at a time.
	lines, err := os.ReadFile(log)
	require.NoError(t, err)
	running := map[string]int{}
	encodes := 0
	for line := range strings.Lines(string(lines)) {
		event, gpu, _ := strings.Cut(strings.TrimSpace(line), " ")
		if event == "end" {
			running[gpu]--
			continue
		}
		encodes++
		running[gpu]++
		require.Equal(t, 1, running[gpu], "processes on GPU %s", gpu)
	}
	require.Equal(t, 24, encodes)
	require.Equal(t, map[string]int{"0": 0, "1": 0}, running)
}

func TestTheRungsStandInLineSmallestFirst(t *testing.T) {
	clip := makeClip(t, 1)
	want := []string{"90p", "120p", "180p"}
	var labels []string
	// The order is not a promise: once in some hundred runs, under the race
	// detector, two of the rungs come the other way round.
	for range 5 {
		all := ladder(t, "-i", clip, "-o", t.TempDir(), "-gpus", "1", "-segment", "0.5", "-ladder", "180,90,120", "-tick", "5ms")
		requireConsistent(t, all, 1)
		labels = nil
		pending := 0
		for _, load := range all[1 : len(all)-1] {
			pending = max(pending, load.PendingClaimers)
			if label := load.GpuPool[0].Label; label != "" && !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
		}
		require.Equal(t, 2, pending)
		require.ElementsMatch(t, want, labels)
		if slices.Equal(want, labels) {
			return
		}
	}
	require.Equal(t, want, labels)
}

func TestAHelperGivesWayToAClaimer(t *testing.T) {
	source, err := openSource(t.Context(), makeClip(t, 1))
	require.NoError(t, err)
	folder := t.TempDir()
	opts := options{out: folder, segment: 0.25, heights: []int{90}, tick: time.Hour}
	w := newWorker(source, simulated(1), opts, folder, io.Discard, &status{out: io.Discard})
	helper, ok := w.pool.TryClaim()
	require.True(t, ok)
	served := make(chan error)
	go func() {
		_, err := w.pool.Claim(t.Context())
		served <- err
	}()
	for w.pool.PendingClaimers() == 0 {
		runtime.Gosched()
	}
	require.NoError(t, w.encode(t.Context(), w.rungs[0], helper, true))
	require.NoError(t, <-served)
	require.Len(t, w.rungs[0].todo, 4, "the helper went on")
}

func TestTheRungWithTheMostPixelsLeftIsHelped(t *testing.T) {
	segments := make([]segment, 4)
	w := &worker{}
	for _, height := range []int{200, 720, 480} {
		r := &rung{height: height, todo: make(chan segment, len(segments))}
		for _, s := range segments {
			r.todo <- s
		}
		close(r.todo)
		w.rungs = append(w.rungs, r)
	}
	for _, want := range []int{720, 720, 720, 480, 480, 720, 480, 480, 200, 200, 200, 200} {
		r := w.neediest()
		require.Equal(t, want, r.height)
		<-r.todo
	}
	require.Nil(t, w.neediest())
}

func TestALadderOnTheCPU(t *testing.T) {
	clip, out := makeClip(t, 1.5), t.TempDir()
	all := ladder(t, "-i", clip, "-o", out, "-gpus", "0", "-segment", "0.7", "-ladder", "120,90", "-tick", "50ms")
	requireConsistent(t, all, 0)
	require.NotNil(t, all[0].GpuPool, "null for an empty list")
	done := all[len(all)-1]
	require.Len(t, done.Rungs, 2)
	for _, rung := range done.Rungs {
		require.Equal(t, 45, rung.Frames)
		require.Equal(t, 3, rung.Segments)
		require.Zero(t, rung.HelperSegments)
		requireRendition(t, clip, rung.File, rung.Height)
	}
}

func TestTheGeneratedClip(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	all := ladder(t, "-o", out, "-gpus", "1", "-seconds", "0.5", "-ladder", "90")
	require.Equal(t, 15, all[len(all)-1].Rungs[0].Frames)
	require.Equal(t, []string{"90p.mp4"}, files(t, out))
}

// Sources that a naive cut gets wrong.
func TestSources(t *testing.T) {
	for _, test := range []struct{ name, file, options string }{
		{"a late clock and key frames off the cuts and no index", "clip.ts",
			"-c:v libx264 -g 37 -bf 3 -x264opts open-gop=1 -output_ts_offset 1000"},
		{"a clock as coarse as the frames", "clip.avi", "-c:v mpeg4"},
		{"a raw file", "clip.y4m", ""},
		{"times that must be made up", "clip.m2v", "-bf 2"},
		{"uneven times", "clip.mp4", "-vf select=not(mod(n\\,3))+not(mod(n\\,7)) -fps_mode vfr -c:v libx264 -g 20"},
		{"a clock of milliseconds and one key frame", "clip.mkv", "-c:v libx264 -g 999"},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			clip, out := filepath.Join(folder, test.file), filepath.Join(folder, "it's #1?")
			generate(t, "testsrc2=size=320x180:rate=30", clip, append([]string{"-t", "3.3"}, strings.Fields(test.options)...)...)
			ladder(t, "-i", clip, "-o", out, "-gpus", "2", "-segment", "0.5", "-ladder", "180")
			requireRendition(t, clip, filepath.Join(out, "180p.mp4"), 180)
		})
	}
}

// The picture grows half-way: ffmpeg then begins its filters anew.
func TestAChangeOfSizeInTheSource(t *testing.T) {
	folder := t.TempDir()
	clip := filepath.Join(folder, "clip.ts")
	_, err := command(t.Context(), nil, "sh", "-c", `cd "$0" && for part in 160x90:0 320x180:2; do
		ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=${part%:*}:rate=30 -t 1 -c:v libx264 -bf 0 \
			-output_ts_offset ${part#*:} -f mpegts - || exit 1
	done >clip.ts`, folder)
	require.NoError(t, err)
	ladder(t, "-i", clip, "-o", folder, "-gpus", "1", "-segment", "5", "-ladder", "90")
	source, err := openSource(t.Context(), filepath.Join(folder, "90p.mp4"))
	require.NoError(t, err)
	require.Len(t, source.frames, 60)
	require.InDelta(t, 3-1.0/30, source.frames[59].time, 0.01)
}

// stopper is a stdout that cancels the run when it reads of a lease.
type stopper struct {
	bytes.Buffer
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"leased":true`)) {
		s.stop()
	}
	return s.Buffer.Write(p)
}

func TestAnInterruptEndsTheProcessesAndLeavesNothing(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	wrapFFmpeg(t, fmt.Sprintf("echo $$ >>'%s'\nexec \"$REAL\" \"$@\"", pids))
	clip := makeClip(t, 4)
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, stderr := &stopper{stop: cancel}, &bytes.Buffer{}

	status := run(ctx, []string{"-i", clip, "-o", filepath.Join(parent, "out"), "-gpus", "2", "-tick", "10ms"}, stdout, stderr)
	require.Equal(t, 1, status)
	require.Contains(t, stderr.String(), "stopped")
	require.Empty(t, files(t, parent))
	running, err := alive(pids)
	require.NoError(t, err)
	require.Empty(t, running)

	// All leases are released.
	all := messages(t, stdout.Bytes())
	require.Zero(t, all[len(all)-1].Stats.Leased)
}

// alive returns the processes in the file of pids that have not exited and been
// waited for.
func alive(pids string) ([]int, error) {
	lines, err := os.ReadFile(pids)
	if err != nil {
		return nil, err
	}
	var found []int
	for line := range strings.Lines(string(lines)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			found = append(found, pid)
		}
	}
	return found, nil
}

// Whoever gets the GPU next finds it unused, whatever ended the lease before.
func TestALeaseOutlastsItsProcess(t *testing.T) {
	source, err := openSource(t.Context(), makeClip(t, 2))
	require.NoError(t, err)
	for _, test := range []struct {
		name, script string
		cancel       bool
		want         string
	}{
		{"success", `exec "$REAL" "$@"`, false, ""},
		{"failure", `exec "$REAL" -no_such_option`, false, "360p, segment 0: ffmpeg: exit status 1"},
		{"cancellation", `exec "$REAL" "$@"`, true, "context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			pids, started := filepath.Join(folder, "pids"), filepath.Join(folder, "started")
			if test.cancel {
				require.NoError(t, syscall.Mkfifo(started, 0o600)) // echo waits for a reader
			}
			wrapFFmpeg(t, fmt.Sprintf("echo $$ >>'%s'\necho started >'%s'\n%s", pids, started, test.script))
			opts := options{out: folder, segment: 1, heights: []int{360}, tick: time.Hour}
			w := newWorker(source, simulated(1), opts, folder, io.Discard, &status{out: io.Discard})
			lease, err := w.pool.Claim(t.Context())
			require.NoError(t, err)

			found := make(chan []int)
			go func() {
				lease, err := w.pool.Claim(t.Context())
				assert.NoError(t, err)
				running, err := alive(pids)
				assert.NoError(t, err)
				lease.Release()
				found <- running
			}()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancel {
				go func() {
					_, err := os.ReadFile(started)
					assert.NoError(t, err)
					cancel()
				}()
			}
			err = w.encode(ctx, w.rungs[0], lease, false)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
			require.Empty(t, <-found, "processes on a GPU that was leased again")
		})
	}
}

func TestAFailedEncodeEndsTheRunAndLeavesWhatWasThere(t *testing.T) {
	wrapFFmpeg(t, `case "$*" in *180p-1.mp4*) echo "no more sessions" >&2; exit 3;; esac
exec "$REAL" "$@"`)
	clip, out := makeClip(t, 2), t.TempDir()
	old := filepath.Join(out, "180p.mp4")
	require.NoError(t, os.WriteFile(old, []byte("the last run's"), 0o600))
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"-i", clip, "-o", out, "-gpus", "2", "-segment", "0.5", "-ladder", "180,120"}, &stdout, &stderr)
	require.Equal(t, 1, status)
	require.Contains(t, stderr.String(), "ladder: 180p, segment 1: ffmpeg: exit status 3: no more sessions")
	require.Equal(t, []string{"180p.mp4"}, files(t, out))
	content, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "the last run's", string(content))
}

func TestNothingButAnEarlierRenditionIsReplaced(t *testing.T) {
	out := t.TempDir()
	clip := filepath.Join(out, "90p.mp4")
	require.NoError(t, generateClip(t.Context(), clip, 0.5))
	require.NoError(t, os.Mkdir(filepath.Join(out, "120p.mp4"), 0o755))
	for ladder, want := range map[string]string{
		"90":  "90p.mp4 is the source: choose another folder with -o",
		"120": "120p.mp4 is in the way",
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 1, run(t.Context(), []string{"-i", clip, "-o", out, "-gpus", "1", "-ladder", ladder}, &stdout, &stderr))
		require.Contains(t, stderr.String(), want)
		require.Empty(t, stdout.String(), "it began all the same")
		require.Equal(t, []string{"120p.mp4", "90p.mp4"}, files(t, out))
	}
}

func TestAFailureRemovesTheFoldersThatItMadeAndNoOthers(t *testing.T) {
	parent := t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-i", "none.mp4", "-o", filepath.Join(parent, "a", "b")}, &stdout, &stderr))
	require.Empty(t, files(t, parent))
	link := filepath.Join(parent, "link")
	require.NoError(t, os.Symlink("nowhere/at/all", link))
	require.Equal(t, 1, run(t.Context(), []string{"-i", "none.mp4", "-o", link}, &stdout, &stderr))
	require.Equal(t, []string{"link"}, files(t, parent))
}

// On a terminal the progress of the rungs stands in the last line, and what is
// written goes above it.
func TestProgressInPlace(t *testing.T) {
	var terminal bytes.Buffer
	r := &rung{height: 90, segments: make([]segment, 3)}
	r.left.Store(3)
	s := &status{out: &terminal, terminal: true, rungs: []*rung{r}}
	s.line("%d frames", 7)
	r.left.Store(1)
	s.update()
	_, err := beside{&terminal, s}.Write([]byte("{}\n"))
	require.NoError(t, err)
	s.end()
	s.line("done")
	require.Equal(t, "\r\x1b[Kladder: 7 frames\n90p 0/3  \r\x1b[K90p 2/3  \r\x1b[K{}\n90p 2/3  \r\x1b[Kladder: done\n", terminal.String())
}

func TestTooFewFramesAreAnError(t *testing.T) {
	wrapFFmpeg(t, `case "$*" in *90p-1.mp4*) exec "$REAL" -v error -progress pipe:1 -f lavfi -i testsrc2 -frames:v 3 -y "$(eval echo \${$#})";; esac
exec "$REAL" "$@"`)
	clip, out := makeClip(t, 1), t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-i", clip, "-o", out, "-segment", "0.5", "-ladder", "90"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "ffmpeg wrote 3 frames to 90p-1.mp4, want 15")
	require.Empty(t, files(t, out))
}

func TestBadInputIsOneLineThatSaysWhatToDo(t *testing.T) {
	folder := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	text := file("notes.txt", []byte("not a video\n"))
	empty := file("empty.mp4", nil)
	sound := filepath.Join(folder, "sound.wav")
	generate(t, "sine=duration=0.1", sound)
	raw := filepath.Join(folder, "raw.h264")
	generate(t, "testsrc2=duration=0.1", raw, "-c:v", "libx264")
	noFrames := filepath.Join(folder, "noframes.avi")
	generate(t, "testsrc2=duration=1", noFrames, "-frames:v", "0", "-c:v", "mpeg4")

	for _, test := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"no such file", []string{"-i", filepath.Join(folder, "none.mp4")}, 1, "there is no file"},
		{"a folder", []string{"-i", folder}, 1, "is not a file: name a video with -i"},
		{"text", []string{"-i", text}, 1, "is not a video that ffmpeg can read: name another with -i"},
		{"an empty file", []string{"-i", empty}, 1, "is not a video that ffmpeg can read: name another with -i"},
		{"sound alone", []string{"-i", sound}, 1, "there is no video in it: name another file with -i"},
		{"no frames", []string{"-i", noFrames}, 1, "its video has no frames: name another file with -i"},
		{"no times", []string{"-i", raw}, 1, "give the frames new times with ffmpeg"},
		{"an odd height", []string{"-ladder", "720,481"}, 2, `"481" is not an even height from 16 to 4320`},
		{"an absurd height", []string{"-ladder", "99999998"}, 2, "is not an even height"},
		{"no height", []string{"-ladder", ""}, 2, "is not an even height"},
		{"a height twice", []string{"-ladder", "90,90"}, 2, "90 is there twice"},
		{"negative GPUs", []string{"-gpus", "-1"}, 2, "-gpus -1: want auto, or 0 to 1024"},
		{"no number of GPUs", []string{"-gpus", "all"}, 2, "-gpus all: want auto, or 0 to 1024"},
		{"no seconds", []string{"-seconds", "0"}, 2, "-seconds 0: want"},
		{"not a number of seconds", []string{"-seconds", "NaN"}, 2, "-seconds NaN: want"},
		{"no folder", []string{"-o", ""}, 2, "-o is empty"},
		{"no segment", []string{"-segment", "-1"}, 2, "-segment -1: want"},
		{"no tick", []string{"-tick", "0s"}, 2, "-tick 0s: want more than 0"},
		{"a stray argument", []string{"clip.mp4"}, 2, `unexpected argument "clip.mp4": name the input with -i`},
		{"an unknown flag", []string{"-height", "3"}, 2, "flag provided but not defined: -height"},
		{"a file for a folder", []string{"-i", text, "-o", text}, 1, "the folder for the renditions: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := t.TempDir()
			args := test.args
			if !slices.Contains(args, "-o") {
				args = append([]string{"-o", filepath.Join(parent, "out")}, args...)
			}
			var stdout, stderr bytes.Buffer
			require.Equal(t, test.status, run(t.Context(), args, &stdout, &stderr))
			require.Contains(t, stderr.String(), test.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "%s", &stderr)
			require.Empty(t, stdout.String())
			require.Empty(t, files(t, parent))
		})
	}
}

func TestWithoutFFmpegItSaysHowToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), nil, &stdout, &stderr))
	require.Equal(t, "ladder: ffmpeg is not on the PATH: install ffmpeg (Debian: apt-get install ffmpeg)\n", stderr.String())
}

func TestAFullStdoutEndsTheRun(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full on this system")
	}
	defer full.Close()
	out := t.TempDir()
	var stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-o", out, "-seconds", "0.2", "-ladder", "90"}, full, &stderr))
	require.Contains(t, stderr.String(), "no space left")
	require.Empty(t, files(t, out))
}

func TestTheGPUsOfThisHost(t *testing.T) {
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-o", out, "-seconds", "0.5", "-ladder", "180"}, &stdout, &stderr), "%s", &stderr)
	all := messages(t, stdout.Bytes())
	require.Equal(t, 15, all[len(all)-1].Rungs[0].Frames)
	require.Equal(t, len(all[0].GpuPool) == 0, strings.Contains(stderr.String(), "ladder: no GPUs: encoding on the CPU\n"))
}

// wrapEncoders has libx264 stand in for the hardware encoders: h264_nvenc on the
// GPU with the UUID GPU-8f2e, and h264_vaapi with -low_power. With GPU-hangs it
// never ends.
func wrapEncoders(t *testing.T) {
	wrapFFmpeg(t, `
fail() { echo "[$1 @ 0x1] $2" >&2; echo "conversion failed" >&2; exit 1; }
case "$CUDA_VISIBLE_DEVICES $*" in
GPU-hangs*h264_nvenc*) exec sleep 1000 ;;
GPU-8f2e*h264_nvenc*) ;;
*h264_nvenc*) fail h264_nvenc "no capable devices found" ;;
*/nowhere/*h264_vaapi*) fail vaapi "no such device" ;;
*h264_vaapi*low_power*) ;;
*h264_vaapi*) fail h264_vaapi "no usable encoding entrypoint" ;;
esac
for a; do
	shift
	case $a in
	h264_*) set -- "$@" libx264 ;;
	format=nv12,hwupload) ;;
	-gpu | -rc | -cq | -b:v | -qp | -low_power | -vaapi_device) skip=1 ;;
	*) [ -n "$skip" ] || set -- "$@" "$(echo "$a" | sed s/,format=nv12,hwupload/,format=nv12/)"
		skip= ;;
	esac
done
exec "$REAL" "$@"`)
}

func TestAGPUThatCannotEncodeIsDropped(t *testing.T) {
	wrapEncoders(t)
	path := makeClip(t, 1)
	source, err := openSource(t.Context(), path)
	require.NoError(t, err)
	without, foreign, noNode := nvidia, nvidia, amd
	without.UUID, foreign.Vendor, noNode.RenderNode = "GPU-none", "matrox", "/nowhere/renderD128"
	var stderr, stdout bytes.Buffer
	status := &status{out: &stderr}
	folder := t.TempDir()

	inv, err := host{devices: []gpupool.GpuDevice{without, nvidia, noNode, intel, foreign}}.
		probe(t.Context(), source, []int{180, 90}, folder, time.Minute, status)
	require.NoError(t, err)
	require.Equal(t, []gpupool.GpuDevice{nvidia, intel}, inv.devices)
	require.Equal(t, []dropped{
		{without, "ffmpeg: exit status 1: no capable devices found"},
		{noNode, "ffmpeg: exit status 1: no such device"},
		{foreign, "no encoder is known for matrox:2 NVIDIA L4"},
	}, inv.dropped)
	require.Equal(t, 3, strings.Count(stderr.String(), "\n"), "%s", &stderr)
	require.Contains(t, stderr.String(), "ladder: nvidia:2 NVIDIA L4 cannot encode: ffmpeg: exit status 1: no capable devices found\n")

	// What is left encodes, and the report tells both.
	opts := options{out: folder, segment: 0.25, heights: []int{180, 90}, tick: time.Hour}
	w := newWorker(source, inv, opts, folder, &stdout, status)
	require.NoError(t, w.run(t.Context()))
	for _, r := range w.rungs {
		requireRendition(t, path, r.joined(), r.height)
	}
	var hello struct {
		GpuPool []gpupool.GpuDevice `json:"gpu_pool"`
		Dropped []dropped
	}
	require.NoError(t, json.NewDecoder(&stdout).Decode(&hello))
	require.Equal(t, inv.devices, hello.GpuPool)
	require.Equal(t, inv.dropped, hello.Dropped)
}

func TestAProbeEnds(t *testing.T) {
	wrapEncoders(t)
	source, err := openSource(t.Context(), makeClip(t, 0.1))
	require.NoError(t, err)
	hangs := nvidia
	hangs.UUID = "GPU-hangs"
	h := host{devices: []gpupool.GpuDevice{hangs}}
	status := &status{out: io.Discard}

	locked, err := h.probe(t.Context(), source, []int{90}, t.TempDir(), 100*time.Millisecond, status)
	require.NoError(t, err)
	require.Equal(t, []dropped{{hangs, "no frame within 100ms"}}, locked.dropped)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = h.probe(ctx, source, []int{90}, t.TempDir(), time.Hour, status)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The real encoders, on a host that has neither such GPU.
func TestAReasonOfTheRealFFmpeg(t *testing.T) {
	source, err := openSource(t.Context(), makeClip(t, 0.1))
	require.NoError(t, err)
	noCard, noNode := nvidia, amd
	noCard.UUID, noNode.RenderNode = "GPU-none", "/nowhere/renderD128"
	inv, err := host{devices: []gpupool.GpuDevice{noCard, noNode}}.
		probe(t.Context(), source, []int{180}, t.TempDir(), time.Minute, &status{out: io.Discard})
	require.NoError(t, err)
	require.Empty(t, inv.devices)
	require.Len(t, inv.dropped, 2)
	for _, d := range inv.dropped {
		require.Regexp(t, "^ffmpeg: exit status [0-9]+: [^\n]+$", d.Reason)
		t.Log(d.Reason)
	}
}
