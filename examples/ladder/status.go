package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// A status tells people on stderr how far the rungs are: in lines, and on a
// terminal also in place.
type status struct {
	mu       sync.Mutex
	out      io.Writer
	rungs    []*rung
	terminal bool
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// eraseLine empties the line that the cursor is on.
const eraseLine = "\r\x1b[K"

func (s *status) line(format string, args ...any) {
	s.print(fmt.Sprintf("ladder: "+format+"\n", args...), s.out)
}

// update shows the progress of each rung in place.
func (s *status) update() { s.print("", s.out) }

// end removes what is shown in place.
func (s *status) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		io.WriteString(s.out, eraseLine)
	}
	s.terminal = false
}

// print writes text to a stream that may share the terminal with the progress.
func (s *status) print(text string, to io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		io.WriteString(s.out, eraseLine)
	}
	_, err := to.Write([]byte(text))
	if s.terminal {
		for _, r := range s.rungs {
			total := int64(len(r.segments))
			fmt.Fprintf(s.out, "%s %d/%d  ", r, total-r.left.Load(), total)
		}
	}
	return err
}

// beside is a stream that is written beside the progress.
type beside struct {
	out    io.Writer
	status *status
}

func (b beside) Write(p []byte) (int, error) {
	if err := b.status.print(string(p), b.out); err != nil {
		return 0, err
	}
	return len(p), nil
}
