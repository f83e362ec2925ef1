package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSegmentsHaveEveryFrameOnce(t *testing.T) {
	// 30 frames a second from 1000 s on, a gap of 3 s in the middle, and a key
	// frame every 40 frames.
	var s source
	for i := range 200 {
		time := 1000 + float64(i)/30
		if i >= 100 {
			time += 3
		}
		s.frames = append(s.frames, frame{time, i%40 == 0})
	}
	for _, length := range []float64{0.1, 0.5, 1, 2.2, 100} {
		segments := s.segments(length)
		frames := 0
		for i, segment := range segments {
			require.Equal(t, i, segment.number)
			first, last := s.frames[frames].time, s.frames[frames+segment.frames-1].time
			require.Equal(t, first, segment.first)
			require.Less(t, segment.start, first)
			require.Greater(t, segment.end, last)
			require.Less(t, last-first, length)
			if i > 0 {
				require.Equal(t, segments[i-1].end, segment.start)
				require.Greater(t, segment.start, s.frames[frames-1].time)
			}
			key := frames / 40 * 40
			require.Equal(t, key == 0, segment.whole)
			require.InDelta(t, s.frames[key].time-0.5, segment.seek, 1e-9)
			frames += segment.frames
		}
		require.Equal(t, len(s.frames), frames)
	}
}

func TestFramesNeedRisingTimes(t *testing.T) {
	for _, test := range []struct{ output, want string }{
		{`{"streams":[{}],"frames":[{"best_effort_timestamp_time":"N/A"}]}`, "frame 1 of 1 has no time later"},
		{`{"streams":[{}],"frames":[{"best_effort_timestamp_time":"1"},{"best_effort_timestamp_time":"1"}]}`, "frame 2 of 2 has no time later than the one before it"},
		{`{"streams":[],"frames":[]}`, "there is no video in it"},
		{`{"streams":[{}],"frames":[]}`, "its video has no frames"},
		{`{`, "ffprobe's answer"},
	} {
		_, err := parseFrames([]byte(test.output))
		require.ErrorContains(t, err, test.want)
	}
}
