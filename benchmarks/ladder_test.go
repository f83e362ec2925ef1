package benchmarks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
)

// What a pool is for does not show in nanoseconds: how soon a ladder is encoded,
// and how much of the GPUs that takes. Here a ladder is encoded in virtual time,
// so the figures are exact, and the same on every machine.

// The rungs, by the time that a segment takes: 5 rungs of 60 segments.
var rungTimes = []time.Duration{
	2000 * time.Millisecond, 1200 * time.Millisecond, 700 * time.Millisecond, 400 * time.Millisecond, 250 * time.Millisecond,
}

const segmentsOfARung = 60

type virtualLadder struct {
	pool     *gpupool.GpuPool
	helpers  bool
	rungs    []*virtualRung
	released chan struct{}
	workers  sync.WaitGroup

	mu   sync.Mutex
	busy time.Duration // of all GPUs
}

type virtualRung struct {
	segment time.Duration
	todo    chan struct{}
}

// encodeVirtually returns how long the ladder took and which share of the GPUs'
// time it used.
func encodeVirtually(gpus int, helpers bool) (makespan time.Duration, used float64) {
	devices := make([]gpupool.GpuDevice, gpus)
	for i := range devices {
		devices[i].Index = i
	}
	l := &virtualLadder{pool: gpupool.New(devices), helpers: helpers, released: make(chan struct{}, 1)}
	for _, segment := range rungTimes {
		r := &virtualRung{segment, make(chan struct{}, segmentsOfARung)}
		for range segmentsOfARung {
			r.todo <- struct{}{}
		}
		close(r.todo)
		l.rungs = append(l.rungs, r)
	}

	begin := time.Now()
	for i := range l.rungs {
		r := l.rungs[len(l.rungs)-1-i] // the smallest first
		l.workers.Go(func() {
			lease, err := l.pool.Claim(context.Background())
			if err != nil {
				panic(err)
			}
			l.encode(r, lease, false)
		})
		synctest.Wait() // it is served or in line before the next one comes
	}
	if helpers {
		l.workers.Go(l.arbitrate)
	}
	l.workers.Wait()
	makespan = time.Since(begin)
	return makespan, float64(l.busy) / float64(makespan*time.Duration(gpus))
}

// encode encodes segments of the rung until there are no more. A helper gives
// way to a claimer.
func (l *virtualLadder) encode(r *virtualRung, lease *gpupool.GpuLease, helper bool) {
	defer func() {
		lease.Release()
		select {
		case l.released <- struct{}{}:
		default:
		}
	}()
	device, _ := lease.Device()
	for !helper || l.pool.PendingClaimers() == 0 {
		if _, ok := <-r.todo; !ok {
			return
		}
		// Each GPU is slower than the one before by less than a millionth, and
		// by a prime, so that no two things happen at the same time: their
		// order would be chance.
		time.Sleep(r.segment + []time.Duration{211, 307, 401, 503, 601, 701, 809, 907}[device.Index]*time.Nanosecond)
		l.mu.Lock()
		l.busy += r.segment
		l.mu.Unlock()
	}
}

// arbitrate lends idle GPUs to the rung with the most work left.
func (l *virtualLadder) arbitrate() {
	for r := l.neediest(); r != nil; r = l.neediest() {
		lease, ok := l.pool.TryClaim()
		if !ok {
			<-l.released
			continue
		}
		l.workers.Go(func() { l.encode(r, lease, true) })
		synctest.Wait() // it has begun a segment before the next one is lent
	}
}

func (l *virtualLadder) neediest() *virtualRung {
	var neediest *virtualRung
	var most time.Duration
	for _, r := range l.rungs {
		if left := time.Duration(len(r.todo)) * r.segment; left > most {
			neediest, most = r, left
		}
	}
	return neediest
}

func TestHelpersShortenALadder(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%d rungs of %d segments\nGPUs  helpers  makespan  used\n", len(rungTimes), segmentsOfARung)
	for _, test := range []struct {
		gpus     int
		helpers  bool
		makespan time.Duration
		used     int // percent
	}{
		{2, false, 177_000 * time.Millisecond, 77},
		{2, true, 137_000 * time.Millisecond, 100},
		{4, false, 135_000 * time.Millisecond, 51},
		{4, true, 68_400 * time.Millisecond, 100},
		{8, false, 120_000 * time.Millisecond, 28},
		{8, true, 34_400 * time.Millisecond, 99},
	} {
		synctest.Test(t, func(t *testing.T) {
			makespan, share := encodeVirtually(test.gpus, test.helpers)
			makespan = makespan.Round(time.Millisecond)
			used := int(100*share + 0.5)
			fmt.Fprintf(&table, "%4d  %-7v  %7.1fs  %3d%%\n", test.gpus, test.helpers, makespan.Seconds(), used)
			require.Equal(t, test.makespan, makespan)
			require.Equal(t, test.used, used)
		})
	}
	t.Logf("\n%s", &table)
}
