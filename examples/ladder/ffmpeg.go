package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// encode encodes a segment of the source to the height.
func (e encoder) encode(ctx context.Context, source string, s segment, height int, to string) error {
	return ffmpeg(ctx, e.env, s.frames, e.arguments(source, s, height), to)
}

func (e encoder) arguments(source string, s segment, height int) []string {
	args := slices.Clone(e.open)
	if !s.whole {
		args = append(args, "-seek_timestamp", "1", "-noaccurate_seek", "-ss", seconds(s.seek))
	}
	args = append(args, "-fflags", "+genpts", "-copyts", "-i", "file:"+source, "-map", "0:V:0", "-vf", strings.Join([]string{
		"settb=AVTB", // microseconds: a container's own clock can be as coarse as a frame
		"trim=start=" + seconds(s.start) + ":end=" + seconds(s.end),
		"setpts=PTS-(" + seconds(s.first) + ")/TB",
		"scale=-2:" + strconv.Itoa(height),
		e.filter,
	}, ","))
	args = append(args, e.codec...)
	return append(args, timing...)
}

// timing keeps each frame's own time, on a clock that is fine enough for any.
var timing = []string{"-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-video_track_timescale", "90000"}

// join puts the rung's segments, in order, into one file.
func join(ctx context.Context, r *rung) error {
	var list strings.Builder
	for i, s := range r.segments {
		part, err := filepath.Abs(r.part(i))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "file 'file:%s'\n", strings.ReplaceAll(part, "'", `'\''`))
		if i < len(r.segments)-1 {
			fmt.Fprintf(&list, "duration %s\n", seconds(s.length))
		}
	}
	listFile := r.joined() + ".txt"
	if err := os.WriteFile(listFile, []byte(list.String()), 0o600); err != nil {
		return err
	}
	return ffmpeg(ctx, nil, r.frames(), []string{"-f", "concat", "-safe", "0", "-i", "file:" + listFile,
		"-c", "copy", "-video_track_timescale", "90000", "-movflags", "+faststart"}, r.joined())
}

func generateClip(ctx context.Context, to string, length float64) error {
	frames := max(1, int(length*30+0.5))
	return ffmpeg(ctx, nil, frames, []string{"-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30",
		"-frames:v", strconv.Itoa(frames), "-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-pix_fmt", "yuv420p"}, to)
}

// ffmpeg writes an MP4 file, and fails unless it has exactly that many frames.
func ffmpeg(ctx context.Context, env []string, frames int, args []string, to string) error {
	args = append([]string{"-nostdin", "-v", "error", "-progress", "pipe:1"}, args...)
	output, err := command(ctx, env, "ffmpeg", append(args, "-f", "mp4", "-y", "file:"+to)...)
	if err != nil {
		return err
	}
	written := -1
	for line := range strings.Lines(string(output)) {
		if count, ok := strings.CutPrefix(line, "frame="); ok {
			written, err = strconv.Atoi(strings.TrimSpace(count))
			if err != nil {
				return fmt.Errorf("ffmpeg's progress: %w", err)
			}
		}
	}
	if written != frames {
		return fmt.Errorf("ffmpeg wrote %d frames to %s, want %d: is the source damaged?", written, filepath.Base(to), frames)
	}
	return nil
}

// command runs a program to its end and returns what it printed. It comes back
// only when the process is gone, also when ctx ends, which kills it: until then
// the GPU is in use, whatever the caller would like.
func command(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, reason(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// reason is the first line that a program complained in: the others follow from
// it. ffmpeg puts the name of its part and an address before some.
func reason(complaint string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(complaint), "\n")
	return partPattern.ReplaceAllString(line, "")
}

var partPattern = regexp.MustCompile(`^\[[^]]* @ 0x[0-9a-f]+\] `)

func seconds(s float64) string {
	return strconv.FormatFloat(s, 'f', 6, 64)
}
