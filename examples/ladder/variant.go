package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/gpupool/gpupool"
)

// A worker encodes the rungs of a ladder with the GPUs of its pool.
type worker struct {
	pool   *gpupool.GpuPool
	gpus   inventory
	source source
	rungs  []*rung
	report *report
	status *status

	// changed has a token after a Claim returned or a lease was released: there
	// may be a GPU for the arbiter to lend.
	changed chan struct{}
}

// A rung is one rendition.
type rung struct {
	height   int
	segments []segment
	work     string // the folder for its files until it is whole
	file     string // where it goes then

	// todo has the segments that nobody has begun. The rung's variant and its
	// helpers take from it until it is empty; it is filled and closed at the
	// start.
	todo chan segment

	left    atomic.Int64  // segments that are not encoded yet
	encoded chan struct{} // closed when left is 0
	helped  atomic.Int64  // segments encoded by helpers
}

func newWorker(source source, gpus inventory, opts options, work string, stdout io.Writer, status *status) *worker {
	w := &worker{
		pool:    gpupool.New(gpus.devices),
		gpus:    gpus,
		source:  source,
		status:  status,
		changed: make(chan struct{}, 1),
	}
	segments := source.segments(opts.segment)
	for _, height := range opts.heights {
		r := &rung{
			height:   height,
			segments: segments,
			work:     work,
			todo:     make(chan segment, len(segments)),
			encoded:  make(chan struct{}),
		}
		r.file = filepath.Join(opts.out, r.String()+".mp4")
		for _, s := range segments {
			r.todo <- s
		}
		close(r.todo)
		r.left.Store(int64(len(segments)))
		w.rungs = append(w.rungs, r)
	}
	w.report = newReport(w.pool, beside{stdout, status}, opts.tick)
	w.status.rungs = w.rungs
	return w
}

func (r *rung) String() string {
	return strconv.Itoa(r.height) + "p"
}

func (r *rung) frames() int {
	frames := 0
	for _, s := range r.segments {
		frames += s.frames
	}
	return frames
}

// part is the path of an encoded segment.
func (r *rung) part(number int) string {
	return filepath.Join(r.work, fmt.Sprintf("%s-%d.mp4", r, number))
}

// joined is the path of the rendition before it is moved into place.
func (r *rung) joined() string {
	return filepath.Join(r.work, r.String()+".mp4")
}

// run encodes all rungs and reports the load meanwhile. When it returns, every
// process has exited and every lease is released. The first failure ends the
// others.
func (w *worker) run(ctx context.Context) error {
	if err := w.report.hello(w.gpus); err != nil {
		return err
	}
	w.status.line("%d frames in %d segments, %d rungs, %d GPUs",
		len(w.source.frames), len(w.rungs[0].segments), len(w.rungs), w.pool.Capacity())
	if w.pool.Capacity() == 0 {
		w.status.line("no GPUs: encoding on the CPU")
	}
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() error { return w.report.run(done) })
	group.Go(func() error {
		defer close(done)
		defer w.status.end()
		return w.encodeRungs(ctx)
	})
	return group.Wait()
}

// encodeRungs starts a variant for each rung, and then the arbiter.
func (w *worker) encodeRungs(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	// The smallest rung claims first: it is the first that can be watched. A
	// goroutine has its turn to claim before the next is made. One that loses
	// its thread just then is overtaken, which does no harm.
	smallestFirst := slices.SortedFunc(slices.Values(w.rungs), func(a, b *rung) int { return a.height - b.height })
	for _, r := range smallestFirst {
		turn := make(chan struct{})
		group.Go(func() error {
			<-turn
			return w.variant(ctx, r)
		})
		turn <- struct{}{}
		runtime.Gosched()
	}
	group.Go(func() error {
		w.arbitrate(ctx, group)
		return nil
	})
	return group.Wait()
}

// variant claims a GPU, encodes the rung with it, and joins the segments when
// the last is there, which may be a helper's.
func (w *worker) variant(ctx context.Context, r *rung) error {
	lease, err := w.pool.Claim(ctx)
	w.tellArbiter()
	if err != nil {
		return err
	}
	lease.SetLabel(r.String())
	if err := w.encode(ctx, r, lease, false); err != nil {
		return err
	}
	select {
	case <-r.encoded:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := join(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	w.status.line("%s: %d frames", r, r.frames())
	return nil
}

// encode encodes segments of the rung, one after the other, and releases the
// lease when the last process under it has exited, however that ended. A helper
// gives its GPU back to a claimer that waits for one.
func (w *worker) encode(ctx context.Context, r *rung, lease *gpupool.GpuLease, helper bool) error {
	defer w.tellArbiter()
	defer lease.Release()
	encoder := w.gpus.encoderFor(lease)
	for !helper || w.pool.PendingClaimers() == 0 {
		s, ok := <-r.todo
		if !ok {
			return nil
		}
		if err := encoder.encode(ctx, w.source.path, s, r.height, r.part(s.number)); err != nil {
			return fmt.Errorf("%s, segment %d: %w", r, s.number, err)
		}
		if helper {
			r.helped.Add(1)
		}
		if r.left.Add(-1) == 0 {
			close(r.encoded)
		}
		w.status.update()
	}
	return nil
}

// tellArbiter wakes the arbiter, now or when it next looks.
func (w *worker) tellArbiter() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}
