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

func (s *status) line(format string, args ...any) {
	s.print(fmt.Sprintf("ladder: "+format+"\n", args...), true)
}

// update shows the progress of each rung in place.
func (s *status) update() { s.print("", true) }

// end removes what was shown in place.
func (s *status) end() { s.print("", false) }

func (s *status) print(line string, progress bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		line = "\r\x1b[K" + line // erases the line that the cursor is on
		for _, r := range s.rungs {
			if total := int64(len(r.segments)); progress {
				line += fmt.Sprintf("%s %d/%d  ", r, total-r.left.Load(), total)
			}
		}
	}
	io.WriteString(s.out, line)
}
