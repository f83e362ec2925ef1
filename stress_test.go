package gpupool_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
)

// stressTime is how long the stress test runs: a second, or what
// GPUPOOL_STRESS says, as in GPUPOOL_STRESS=10m.
func stressTime(t *testing.T) time.Duration {
	value, set := os.LookupEnv("GPUPOOL_STRESS")
	if !set {
		return time.Second
	}
	d, err := time.ParseDuration(value)
	require.NoError(t, err, "GPUPOOL_STRESS")
	return d
}

// Random operations from many goroutines, by no order that anyone thought of.
func TestStress(t *testing.T) {
	s := &stress{t: t, pool: gpupool.New(inventory(66)), holders: make([]int, 66)}
	ctx, cancel := context.WithTimeout(t.Context(), stressTime(t))
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	var wg sync.WaitGroup
	for worker := range uint64(100) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, worker))
			for ctx.Err() == nil && !t.Failed() {
				s.step(ctx, random)
			}
		})
	}
	wg.Wait()

	requireAllFree(t, s.pool)
	stats := s.pool.Stats()
	require.Zero(t, stats.Leased)
	require.Equal(t, s.leases.Load()+uint64(s.pool.Capacity()), stats.Leases)
	require.GreaterOrEqual(t, stats.Waits, stats.Cancellations)
	t.Logf("%+v", stats)
}

type stress struct {
	t       *testing.T
	pool    *gpupool.GpuPool
	holders []int // of each slot; plain, guarded by the leases alone
	leases  atomic.Uint64
}

func (s *stress) step(ctx context.Context, random *rand.Rand) {
	switch random.IntN(10) {
	case 0:
		s.look()
	case 1, 2:
		if lease, ok := s.pool.TryClaim(); ok {
			s.hold(lease, random)
		}
	case 3, 4:
		short, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(1000))*time.Microsecond)
		defer cancel()
		s.claim(short, random)
	default:
		s.claim(ctx, random)
	}
}

func (s *stress) claim(ctx context.Context, random *rand.Rand) {
	lease, err := s.pool.Claim(ctx)
	if err != nil {
		assert.Nil(s.t, lease)
		assert.ErrorIs(s.t, err, context.DeadlineExceeded)
		return
	}
	s.hold(lease, random)
}

// hold uses a lease for a while and releases it, from one goroutine or two.
func (s *stress) hold(lease *gpupool.GpuLease, random *rand.Rand) {
	s.leases.Add(1)
	slot := slotOf(s.t, lease)
	s.holders[slot]++
	assert.Equal(s.t, 1, s.holders[slot], "holders of slot %d", slot)
	lease.SetLabel("held")
	for range random.IntN(50) {
		s.pool.PendingClaimers()
	}
	if random.IntN(20) == 0 {
		time.Sleep(time.Duration(random.IntN(200)) * time.Microsecond)
	}
	s.holders[slot]--
	if random.IntN(4) == 0 {
		var wg sync.WaitGroup
		wg.Go(lease.Release)
		defer wg.Wait()
	}
	lease.Release()
	lease.SetLabel("late")
}

// look checks what must hold of the pool at any moment.
func (s *stress) look() {
	for slot, entry := range s.pool.SnapshotLeases() {
		assert.Equal(s.t, slot, entry.Index)
		assert.Equal(s.t, entry.Leased, !entry.LeasedSince.IsZero())
		assert.Contains(s.t, []string{"", "held"}, entry.Label)
		assert.False(s.t, !entry.Leased && entry.Label != "", "a free slot has a label")
	}
	stats := s.pool.Stats()
	assert.GreaterOrEqual(s.t, stats.Leases, uint64(stats.Leased))
	assert.GreaterOrEqual(s.t, stats.Waits, uint64(stats.PendingClaimers))
	assert.LessOrEqual(s.t, stats.Leased, stats.Capacity)
	assert.GreaterOrEqual(s.t, stats.PendingClaimers, 0)
}
