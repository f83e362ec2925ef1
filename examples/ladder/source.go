package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// A source is a video and the times of its frames, in order. All times are in
// seconds on the file's own clock, which need not begin at 0.
type source struct {
	path   string
	frames []frame
}

type frame struct {
	time float64
	key  bool // decoding can begin here
}

// A segment is a run of frames. It is cut half-way between two frames, so that
// no rounding to a microsecond can move a frame across.
type segment struct {
	number     int
	frames     int
	start, end float64
	first      float64 // the first frame's time
	seek       float64 // a little before the last key frame that is not past start
	whole      bool    // that is the first frame: read from the file's beginning
	length     float64 // until the next segment's first frame; the last one's is short
}

// openSource decodes the video once to learn its frames: a container's index
// can be wrong or missing, and the segments must have every frame once.
func openSource(ctx context.Context, path string) (source, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return source{}, fmt.Errorf("there is no file %s: name a video with -i", path)
	}
	if err != nil {
		return source{}, err
	}
	if !info.Mode().IsRegular() {
		return source{}, fmt.Errorf("%s is not a file: name a video with -i", path)
	}
	output, err := command(ctx, nil, "ffprobe", "-v", "error", "-fflags", "+genpts", "-select_streams", "V:0",
		"-show_entries", "stream=index:frame=key_frame,best_effort_timestamp_time", "-of", "json", "file:"+path)
	if err != nil {
		return source{}, fmt.Errorf("%s is not a video that ffmpeg can read: name another with -i (%w)", path, err)
	}
	frames, err := parseFrames(output)
	if err != nil {
		return source{}, fmt.Errorf("%s: %w", path, err)
	}
	return source{path, frames}, nil
}

func parseFrames(output []byte) ([]frame, error) {
	var probe struct {
		Streams []struct{}
		Frames  []struct {
			KeyFrame int    `json:"key_frame"`
			Time     string `json:"best_effort_timestamp_time"`
		}
	}
	if err := json.Unmarshal(output, &probe); err != nil {
		return nil, fmt.Errorf("ffprobe's answer: %w", err)
	}
	if len(probe.Streams) == 0 {
		return nil, errors.New("there is no video in it: name another file with -i")
	}
	if len(probe.Frames) == 0 {
		return nil, errors.New("its video has no frames: name another file with -i")
	}
	frames := make([]frame, len(probe.Frames))
	for i, f := range probe.Frames {
		time, err := strconv.ParseFloat(f.Time, 64)
		if err != nil || i > 0 && time <= frames[i-1].time {
			return nil, fmt.Errorf("frame %d of %d has no time later than the one before it: "+
				"give the frames new times with ffmpeg -i FILE NEW.mp4, and encode that", i+1, len(frames))
		}
		frames[i] = frame{time, f.KeyFrame == 1}
	}
	return frames, nil
}

// segments cuts the source into pieces of so many seconds, the last one shorter.
func (s source) segments(seconds float64) []segment {
	var segments []segment
	key, first := 0, 0
	for first < len(s.frames) {
		limit := s.frames[first].time + seconds - 1e-6 // the times are rounded to a microsecond
		next := first + 1
		for next < len(s.frames) && s.frames[next].time < limit {
			next++
		}
		for i := key; i <= first; i++ {
			if s.frames[i].key {
				key = i
			}
		}
		segments = append(segments, segment{
			number: len(segments),
			frames: next - first,
			start:  s.cut(first),
			end:    s.cut(next),
			first:  s.frames[first].time,
			whole:  key == 0,
			seek:   s.frames[key].time - 0.5,
			length: s.frames[min(next, len(s.frames)-1)].time - s.frames[first].time,
		})
		first = next
	}
	return segments
}

// cut returns a time between frame i and the one before it.
func (s source) cut(i int) float64 {
	switch i {
	case 0:
		return s.frames[0].time - 1
	case len(s.frames):
		return s.frames[i-1].time + 1
	}
	return (s.frames[i-1].time + s.frames[i].time) / 2
}
