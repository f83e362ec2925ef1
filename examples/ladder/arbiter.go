package main

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// arbitrate lends GPUs that nobody waits for to the rungs with the most work
// left, until every segment has been begun.
func (w *worker) arbitrate(ctx context.Context, group *errgroup.Group) {
	for r := w.neediest(); r != nil; r = w.neediest() {
		lease, ok := w.pool.TryClaim()
		if ok {
			lease.SetLabel("helper of " + r.String())
			group.Go(func() error { return w.encode(ctx, r, lease, true) })
			continue
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return
		}
	}
}

// neediest returns the rung with the most pixels to encode that nobody has
// begun, or nil if there are none.
func (w *worker) neediest() *rung {
	var neediest *rung
	most := 0
	for _, r := range w.rungs {
		if left := len(r.todo) * r.height * r.height; left > most {
			neediest, most = r, left
		}
	}
	return neediest
}
