package gpupool_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
)

// model is what a pool does, without concurrency: it knows claims by number.
type model struct {
	slots []int // the claim that holds each slot, or free
	queue []int // the claims that are parked, first come first
}

const free = -1

func (m *model) try(claim int) bool {
	slot := slices.Index(m.slots, free)
	if slot < 0 || len(m.queue) > 0 {
		return false
	}
	m.slots[slot] = claim
	return true
}

func (m *model) claim(claim int) {
	if len(m.slots) > 0 && !m.try(claim) {
		m.queue = append(m.queue, claim)
	}
}

func (m *model) cancel(claim int) (parked bool) {
	before := len(m.queue)
	m.queue = slices.DeleteFunc(m.queue, func(c int) bool { return c == claim })
	return len(m.queue) < before
}

func (m *model) release(claim int) {
	slot := slices.Index(m.slots, claim)
	if slot < 0 {
		return
	}
	m.slots[slot] = free
	if len(m.queue) > 0 {
		m.slots[slot], m.queue = m.queue[0], m.queue[1:]
	}
}

// A fuzzer drives a pool and its model side by side.
type fuzzer struct {
	devices []gpupool.GpuDevice
	pool    *gpupool.GpuPool
	model   model
	claims  []*fuzzedClaim
	want    gpupool.Stats // the counters
}

type fuzzedClaim struct {
	cancel context.CancelFunc
	lease  *gpupool.GpuLease
	err    error
	parked time.Time // when the call began
	since  time.Time // when the model granted it
	label  string
}

func newFuzzer(slots int) *fuzzer {
	devices := inventory(slots)
	f := &fuzzer{devices: devices, pool: gpupool.New(devices)}
	for range slots {
		f.model.slots = append(f.model.slots, free)
	}
	return f
}

// claim starts a Claim and lets it come to rest: leased or parked.
func (f *fuzzer) claim() {
	ctx, cancel := context.WithCancel(context.Background())
	c := &fuzzedClaim{cancel: cancel, parked: time.Now()}
	f.claims = append(f.claims, c)
	go func() { c.lease, c.err = f.pool.Claim(ctx) }()
	synctest.Wait()
	waiting := len(f.model.queue)
	f.model.claim(len(f.claims) - 1)
	if len(f.model.queue) > waiting {
		f.want.Waits++
	}
}

func (f *fuzzer) try(t *testing.T) {
	lease, ok := f.pool.TryClaim()
	require.Equal(t, f.model.try(len(f.claims)), ok)
	if ok {
		f.claims = append(f.claims, &fuzzedClaim{cancel: func() {}, lease: lease})
	}
}

func (f *fuzzer) cancel(t *testing.T, claim int) {
	c := f.claims[claim]
	c.cancel()
	synctest.Wait()
	if f.model.cancel(claim) {
		require.ErrorIs(t, c.err, context.Canceled)
		require.Nil(t, c.lease)
		f.want.Cancellations++
		f.want.WaitTime += time.Since(c.parked)
	}
}

// release ends a lease, again if it has ended, or a nil one.
func (f *fuzzer) release(claim int) {
	f.claims[claim].lease.Release()
	synctest.Wait()
	f.model.release(claim)
}

func (f *fuzzer) label(claim int, label string) {
	f.claims[claim].lease.SetLabel(label)
	if f.claims[claim].lease != nil {
		f.claims[claim].label = label
	}
}

// check compares all that the pool shows with the model.
func (f *fuzzer) check(t *testing.T) {
	f.want.Leased = 0
	f.want.Capacity = len(f.model.slots)
	entries := f.pool.SnapshotLeases()
	require.Len(t, entries, len(f.model.slots))
	for slot, claim := range f.model.slots {
		want := gpupool.GpuLeaseEntry{GpuDevice: f.devices[slot]}
		if claim != free {
			f.want.Leased++
			c := f.claims[claim]
			if c.since.IsZero() {
				f.granted(c)
			}
			require.NoError(t, c.err)
			require.Equal(t, slot, slotOf(t, c.lease))
			require.True(t, c.since.Equal(entries[slot].LeasedSince))
			want.Leased, want.LeasedSince, want.Label = true, entries[slot].LeasedSince, c.label
		}
		require.Equal(t, want, entries[slot])
	}
	f.want.PendingClaimers = len(f.model.queue)
	require.Equal(t, f.want.PendingClaimers, f.pool.PendingClaimers())
	require.Equal(t, f.want, f.pool.Stats())
}

// granted notes a lease that the step at hand began.
func (f *fuzzer) granted(c *fuzzedClaim) {
	c.since = time.Now()
	f.want.Leases++
	if !c.parked.IsZero() {
		f.want.WaitTime += c.since.Sub(c.parked)
	}
}

// finish lets every claimer end, so that none outlives the test.
func (f *fuzzer) finish(t *testing.T) {
	for claim := range f.claims {
		f.cancel(t, claim)
		f.check(t)
		f.release(claim)
		f.check(t)
	}
	requireAllFree(t, f.pool)
}

// The first byte chooses the pool, and each of the others is an operation and
// the claim it is about.
func FuzzPoolAgainstModel(f *testing.F) {
	const (
		claim = iota
		try
		cancel
		release
		label
		pass
		operations
	)
	op := func(operation, claim byte) byte { return claim*operations + operation }
	f.Add([]byte{0, claim, claim, try, release, pass})
	f.Add([]byte{1, claim, claim, claim, pass, op(cancel, 1), op(release, 0), op(release, 2), op(release, 0)})
	f.Add([]byte{2, claim, try, claim, try, op(label, 0), op(release, 0), op(label, 0), op(release, 0), op(release, 1)})
	f.Add([]byte{3, claim, try, claim, claim, op(release, 3), op(release, 40), op(cancel, 20), try, pass, op(label, 9)})
	sizes := []int{0, 1, 3, 66}

	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 || len(program) > 200 {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			f := newFuzzer(sizes[int(program[0])%len(sizes)])
			// A large pool starts nearly full, so that both of its words are in play.
			for len(f.claims) < f.pool.Capacity()-2 {
				f.try(t)
			}
			f.check(t)
			for _, b := range program[1:] {
				n := int(b / operations)
				about := n % max(1, len(f.claims))
				switch operation := b % operations; {
				case operation == claim:
					f.claim()
				case operation == try:
					f.try(t)
				case operation == pass:
					time.Sleep(time.Duration(n) * time.Second)
				case len(f.claims) == 0:
				case operation == cancel:
					f.cancel(t, about)
				case operation == release:
					f.release(about)
				case operation == label:
					f.label(about, string(rune('a'+n%26)))
				}
				f.check(t)
			}
			f.finish(t)
		})
	})
}
