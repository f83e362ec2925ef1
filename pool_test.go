package gpupool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
)

// inventory lists n devices whose Index is their slot.
func inventory(n int) []gpupool.GpuDevice {
	devices := make([]gpupool.GpuDevice, n)
	for i := range devices {
		devices[i] = gpupool.GpuDevice{Index: i, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"}
	}
	return devices
}

// claim leases a GPU of a pool that has one free.
func claim(t testing.TB, pool *gpupool.GpuPool) *gpupool.GpuLease {
	t.Helper()
	lease, err := pool.Claim(t.Context())
	require.NoError(t, err)
	require.NotNil(t, lease)
	return lease
}

// park starts a claim of a full pool, in a synctest bubble, and returns when it is
// parked. Its lease comes through the channel.
func park(t *testing.T, ctx context.Context, pool *gpupool.GpuPool) <-chan *gpupool.GpuLease {
	t.Helper()
	served := make(chan *gpupool.GpuLease, 1)
	go func() {
		lease, err := pool.Claim(ctx)
		assert.NoError(t, err)
		assert.NotNil(t, lease)
		served <- lease
	}()
	synctest.Wait()
	require.Empty(t, served)
	return served
}

// meanwhile repeats f in a goroutine until stop is called.
func meanwhile(f func()) (stop func()) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			f()
			select {
			case <-done:
				return
			default:
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// slotOf returns the slot of a lease in a pool made from inventory.
func slotOf(t testing.TB, lease *gpupool.GpuLease) int {
	t.Helper()
	device, ok := lease.Device()
	require.True(t, ok)
	return device.Index
}

// leased lists, slot by slot, whether the pool reads leased.
func leased(pool *gpupool.GpuPool) []bool {
	var slots []bool
	for _, entry := range pool.SnapshotLeases() {
		slots = append(slots, entry.Leased)
	}
	return slots
}

// requireAllFree checks that every slot and every permit is back.
func requireAllFree(t *testing.T, pool *gpupool.GpuPool) {
	t.Helper()
	require.Zero(t, pool.PendingClaimers())
	require.NotContains(t, leased(pool), true)
	leases := make([]*gpupool.GpuLease, pool.Capacity())
	for i := range leases {
		lease, ok := pool.TryClaim()
		require.True(t, ok, "the permit of slot %d is lost", i)
		leases[i] = lease
	}
	_, ok := pool.TryClaim()
	require.False(t, ok, "more permits than slots")
	for _, lease := range leases {
		lease.Release()
	}
}

// lookedAt is a context that tells when a claim asks whether it is done. A
// claim asks twice: on entry for Err, and, if it found no permit, for Done on
// its way into the queue.
type lookedAt struct {
	context.Context
	atErr, atDone func()
}

func (c lookedAt) Err() error {
	c.atErr()
	return c.Context.Err()
}

func (c lookedAt) Done() <-chan struct{} {
	c.atDone()
	return c.Context.Done()
}

func nothing() {}

// Exclusive.

func TestASlotHasOneHolderAtATime(t *testing.T) {
	for _, slots := range []int{1, 64, 65, 130} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			pool := gpupool.New(inventory(slots))
			// Plain ints, which nothing guards but the leases: two holders at
			// once, or a Release that does not synchronize before the next
			// lease of its slot, and the race detector fails the test.
			holders := make([]int, slots)
			rounds := make([]int, slots)
			use := func(lease *gpupool.GpuLease) {
				slot := slotOf(t, lease)
				holders[slot]++
				assert.Equal(t, 1, holders[slot], "holders of slot %d", slot)
				rounds[slot]++
				holders[slot]--
				lease.Release()
				lease.Release()
			}

			const each = 500
			var wg sync.WaitGroup
			for range slots + 4 {
				wg.Go(func() {
					for range each {
						lease, err := pool.Claim(t.Context())
						if assert.NoError(t, err) {
							use(lease)
						}
					}
				})
			}
			tries := 0
			wg.Go(func() {
				for range each {
					if lease, ok := pool.TryClaim(); ok {
						tries++
						use(lease)
					}
				}
			})
			wg.Wait()

			total := 0
			for _, n := range rounds {
				total += n
			}
			assert.Equal(t, (slots+4)*each+tries, total)
			requireAllFree(t, pool)
		})
	}
}

// First come, first served.

func TestParkedClaimersAreServedInTheOrderInWhichTheyParked(t *testing.T) {
	for _, slots := range []int{1, 3} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := gpupool.New(inventory(slots))
				var held []*gpupool.GpuLease
				for range slots {
					held = append(held, claim(t, pool))
				}

				const claimers = 10
				served := make(chan int, claimers)
				leases := make(chan *gpupool.GpuLease, claimers)
				for c := range claimers {
					go func() {
						lease := claim(t, pool)
						served <- c
						leases <- lease
					}()
					synctest.Wait()
				}
				require.Equal(t, claimers, pool.PendingClaimers())
				require.Empty(t, served)

				for _, lease := range held {
					leases <- lease
				}
				for c := range claimers {
					(<-leases).Release()
					synctest.Wait()
					require.Equal(t, c, <-served)
					require.Equal(t, claimers-1-c, pool.PendingClaimers())
				}
			})
		})
	}
}

// A CPU-only host.

func TestOnACPUOnlyHostAClaimIsANilLeaseAtOnce(t *testing.T) {
	for name, pool := range map[string]*gpupool.GpuPool{
		"nil inventory":   gpupool.New(nil),
		"empty inventory": gpupool.New([]gpupool.GpuDevice{}),
		"zero value":      new(gpupool.GpuPool),
	} {
		t.Run(name, func(t *testing.T) {
			lease, err := pool.Claim(t.Context())
			require.NoError(t, err)
			require.Nil(t, lease)

			lease, ok := pool.TryClaim()
			require.False(t, ok)
			require.Nil(t, lease)

			require.Zero(t, pool.Capacity())
			require.Zero(t, pool.PendingClaimers())
			require.Zero(t, pool.Stats())
			report, err := json.Marshal(pool.SnapshotLeases())
			require.NoError(t, err)
			require.JSONEq(t, `[]`, string(report))
		})
	}
}

func TestEveryMethodOfANilLeaseIsSafe(t *testing.T) {
	var lease *gpupool.GpuLease
	device, ok := lease.Device()
	require.False(t, ok)
	require.Zero(t, device)
	lease.SetLabel("job 7/720p")
	lease.Release()
	lease.Release()
}

// The context.

func TestADoneContextGetsItsErrorAndNoLeaseOnEveryHost(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	full := gpupool.New(inventory(1))
	claim(t, full)

	for name, pool := range map[string]*gpupool.GpuPool{
		"GPUs free": gpupool.New(inventory(2)),
		"GPUs busy": full,
		"no GPUs":   gpupool.New(nil),
	} {
		t.Run(name, func(t *testing.T) {
			before := pool.Stats()

			lease, err := pool.Claim(canceled)
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, lease)
			lease.Release()

			lease, err = pool.Claim(expired)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Nil(t, lease)

			require.Equal(t, before, pool.Stats(), "a claim that never began left a trace")
		})
	}
}

func TestAParkedClaimEndsWithItsContextAndLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := gpupool.New(inventory(1))
		held := claim(t, pool)

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		go func() {
			lease, err := pool.Claim(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Nil(t, lease)
			lease.Release()
			assert.Equal(t, 3*time.Second, time.Since(begin))
		}()
		synctest.Wait()
		behind := park(t, t.Context(), pool)
		require.Equal(t, 2, pool.PendingClaimers())

		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, pool.PendingClaimers())
		require.Equal(t, []bool{true}, leased(pool), "the GPU is the holder's still")

		held.Release()
		synctest.Wait()
		require.Zero(t, pool.PendingClaimers())
		(<-behind).Release()
		requireAllFree(t, pool)
	})
}

func TestACancelThatRacesARelease(t *testing.T) {
	pool := gpupool.New(inventory(1))
	for range 2000 {
		held := claim(t, pool)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			lease, err := pool.Claim(ctx)
			if err != nil {
				assert.Nil(t, lease)
				assert.ErrorIs(t, err, context.Canceled)
			}
			lease.Release()
		})
		wg.Go(func() { claim(t, pool).Release() })
		wg.Go(cancel)
		wg.Go(held.Release)
		wg.Wait()
		requireAllFree(t, pool)
	}
}

func TestAContextThatEndsAfterTheGrantChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := gpupool.New(inventory(2))
		held := claim(t, pool)
		ctx, cancel := context.WithCancel(t.Context())
		atOnce, err := pool.Claim(ctx)
		require.NoError(t, err)
		afterAWait := park(t, ctx, pool)
		held.Release()
		synctest.Wait()

		cancel()
		synctest.Wait()
		require.Equal(t, []bool{true, true}, leased(pool))
		_, ok := pool.TryClaim()
		require.False(t, ok)

		atOnce.Release()
		(<-afterAWait).Release()
		requireAllFree(t, pool)
	})
}

// TryClaim.

func TestTryClaimLeasesAFreeGPUAndFailsWithoutOne(t *testing.T) {
	pool := gpupool.New(inventory(1))
	lease, ok := pool.TryClaim()
	require.True(t, ok)
	require.Zero(t, slotOf(t, lease))

	none, ok := pool.TryClaim()
	require.False(t, ok)
	require.Nil(t, none)
	require.Zero(t, pool.PendingClaimers())
	lease.Release()
	requireAllFree(t, pool)
}

func TestTryClaimNeverOvertakesAParkedClaimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := gpupool.New(inventory(1))
		held := claim(t, pool)
		claimed := park(t, t.Context(), pool)

		held.Release()
		// The claimer has the permit now, whether or not it has run since.
		_, ok := pool.TryClaim()
		require.False(t, ok)
		(<-claimed).Release()
		synctest.Wait()
		requireAllFree(t, pool)
	})
}

func TestTryClaimLeavesAFreedGPUToAClaimerOnItsWayIntoTheQueue(t *testing.T) {
	pool := gpupool.New(inventory(1))
	held := claim(t, pool)
	looked := false
	ctx := lookedAt{t.Context(), nothing, func() {
		looked = true
		require.Equal(t, 1, pool.PendingClaimers())
		held.Release()
		_, ok := pool.TryClaim()
		require.False(t, ok, "the GPU was taken from under the claimer")
	}}
	lease, err := pool.Claim(ctx)
	require.NoError(t, err)
	require.NotNil(t, lease)
	require.True(t, looked)
}

// PendingClaimers.

func TestAClaimThatFindsAGPUFreeNeverCountsAsPending(t *testing.T) {
	pool := gpupool.New(inventory(1))
	looks := 0
	look := func() {
		looks++
		require.Zero(t, pool.PendingClaimers())
	}
	lease, err := pool.Claim(lookedAt{t.Context(), look, look})
	require.NoError(t, err)
	require.NotNil(t, lease)
	require.Positive(t, looks)
	require.Zero(t, pool.PendingClaimers())
}

func TestPendingIsNeverNegativeAndZeroWhenNobodyClaims(t *testing.T) {
	pool := gpupool.New(inventory(2))
	var claimers sync.WaitGroup
	for range 4 {
		claimers.Go(func() {
			for range 2000 {
				lease, err := pool.Claim(t.Context())
				assert.NoError(t, err)
				lease.Release()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		claimers.Wait()
	}()
	for sampling := true; sampling; {
		select {
		case <-done:
			sampling = false
		default:
		}
		n := pool.PendingClaimers()
		require.GreaterOrEqual(t, n, 0)
		require.LessOrEqual(t, n, 4)
	}
	require.Zero(t, pool.PendingClaimers())
}

// Release.

func TestReleaseReturnsTheSlotOnceHoweverOftenItIsCalled(t *testing.T) {
	pool := gpupool.New(inventory(2))
	for range 1000 {
		lease := claim(t, pool)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(lease.Release)
		}
		wg.Wait()
		requireAllFree(t, pool)
	}
}

func TestALateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	pool := gpupool.New(inventory(1))
	old := claim(t, pool)
	old.Release()
	next := claim(t, pool)
	next.SetLabel("next")

	old.SetLabel("old")
	old.Release()
	entry := pool.SnapshotLeases()[0]
	require.True(t, entry.Leased)
	require.Equal(t, "next", entry.Label)
	_, ok := pool.TryClaim()
	require.False(t, ok)

	next.Release()
	requireAllFree(t, pool)
}

func TestAPermitAlwaysFindsASlot(t *testing.T) {
	// Claims that come and go as fast as they can. A permit returned before its
	// bit, or a search that does not begin at slot 0, makes one of them miss,
	// and a miss panics.
	for _, slots := range []int{1, 2, 65, 130} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			pool := gpupool.New(inventory(slots))
			// Only the first and the last slot are ever free: in the larger
			// pools a claimer passes the first word while the other slot is
			// given back.
			leases := make([]*gpupool.GpuLease, slots)
			for s := range leases {
				leases[s] = claim(t, pool)
			}
			leases[0].Release()
			leases[slots-1].Release()

			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 20_000 {
						claim(t, pool).Release()
						if lease, ok := pool.TryClaim(); ok {
							lease.Release()
						}
					}
				})
			}
			wg.Wait()
			for _, lease := range leases {
				lease.Release()
			}
			requireAllFree(t, pool)
		})
	}
}

// Slots.

func TestTheLowestFreeSlotIsLeasedFirst(t *testing.T) {
	pool := gpupool.New(inventory(130))
	leases := make([]*gpupool.GpuLease, pool.Capacity())
	for s := range leases {
		leases[s] = claim(t, pool)
		require.Equal(t, s, slotOf(t, leases[s]))
	}
	free := []int{0, 1, 62, 63, 64, 65, 127, 128, 129}
	for i := range free {
		leases[free[len(free)-1-i]].Release()
	}
	for _, s := range free {
		require.Equal(t, s, slotOf(t, claim(t, pool)))
	}
}

func TestSlotsKeepTheInventoryAsGiven(t *testing.T) {
	twice := gpupool.GpuDevice{Index: 5, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4", UUID: "GPU-5"}
	devices := []gpupool.GpuDevice{
		{Index: 2, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4", PCIAddress: "0000:c1:00.0"},
		{Index: 0, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"},
		{Index: 0, Vendor: gpupool.VendorIntel, Name: "Intel Arc A380", RenderNode: "/dev/dri/renderD128"},
		twice,
		twice,
	}
	given := append([]gpupool.GpuDevice(nil), devices...)
	pool := gpupool.New(devices)
	clear(devices)

	require.Equal(t, len(given), pool.Capacity())
	for s, entry := range pool.SnapshotLeases() {
		require.Equal(t, given[s], entry.GpuDevice)
		device, ok := claim(t, pool).Device()
		require.True(t, ok)
		require.Equal(t, given[s], device)
	}
}

func TestADeviceListedTwiceHasTwoLeasesAtATime(t *testing.T) {
	device := inventory(1)[0]
	pool := gpupool.New([]gpupool.GpuDevice{device, device})
	for range 2 {
		leasedDevice, _ := claim(t, pool).Device()
		require.Equal(t, device, leasedDevice)
	}
	_, ok := pool.TryClaim()
	require.False(t, ok)
}

// Snapshots and statistics.

func TestASnapshotShowsWhoHoldsWhatSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := gpupool.New(inventory(3))
		time.Sleep(time.Minute)
		first, second := claim(t, pool), claim(t, pool)
		first.SetLabel("job 7/720p")
		began := time.Now()
		time.Sleep(time.Minute)

		entries := pool.SnapshotLeases()
		require.Len(t, entries, 3)
		require.True(t, entries[0].Leased)
		require.Equal(t, "job 7/720p", entries[0].Label)
		require.True(t, began.Equal(entries[0].LeasedSince))
		require.Equal(t, time.Minute, time.Since(entries[0].LeasedSince))
		require.True(t, entries[1].Leased)
		require.Empty(t, entries[1].Label)
		require.False(t, entries[2].Leased)

		first.SetLabel("job 7/1080p")
		require.Equal(t, "job 7/1080p", pool.SnapshotLeases()[0].Label)
		require.Equal(t, "job 7/720p", entries[0].Label, "a snapshot is the caller's")

		first.Release()
		second.Release()
		for s, entry := range pool.SnapshotLeases() {
			require.Equal(t, gpupool.GpuLeaseEntry{GpuDevice: inventory(3)[s]}, entry, "a free slot has neither age nor label")
		}

		clear(entries)
		require.Equal(t, inventory(3)[0], pool.SnapshotLeases()[0].GpuDevice)
	})
}

func TestAClaimThatWaitedBeginsItsLeaseWhenItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := gpupool.New(inventory(1))
		held := claim(t, pool)
		park(t, t.Context(), pool)
		time.Sleep(time.Minute)
		held.Release()
		synctest.Wait()
		require.True(t, time.Now().Equal(pool.SnapshotLeases()[0].LeasedSince))
	})
}

func TestASnapshotOfUpTo64SlotsIsOfOneMoment(t *testing.T) {
	// One of the first and the last slot is leased at every moment. A snapshot
	// that looked at them one after the other would see both free now and then.
	pool := gpupool.New(inventory(64))
	leases := make([]*gpupool.GpuLease, pool.Capacity())
	for s := range leases {
		leases[s] = claim(t, pool)
	}
	first, last := leases[0], leases[63]
	last.Release()

	defer meanwhile(func() {
		last = claim(t, pool)
		first.Release()
		first = claim(t, pool)
		last.Release()
	})()
	for range 20_000 {
		entries := pool.SnapshotLeases()
		require.True(t, entries[0].Leased || entries[63].Leased)
		for _, entry := range entries {
			require.Equal(t, entry.Leased, !entry.LeasedSince.IsZero())
		}
	}
}

func TestALabelThatComesLateNeverShows(t *testing.T) {
	pool := gpupool.New(inventory(1))
	defer meanwhile(func() {
		lease, ok := pool.TryClaim()
		if !ok {
			return
		}
		lease.SetLabel("in time")
		lease.Release()
		lease.SetLabel("late")
	})()
	for range 1_000_000 {
		if label := pool.SnapshotLeases()[0].Label; label != "" {
			require.Equal(t, "in time", label)
		}
	}
}

func TestStatsCountLeasesWaitsAndCancellations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := gpupool.New(inventory(2))
		require.Equal(t, gpupool.Stats{Capacity: 2}, pool.Stats())

		first := claim(t, pool)
		second, ok := pool.TryClaim()
		require.True(t, ok)
		_, ok = pool.TryClaim()
		require.False(t, ok)
		require.Equal(t, gpupool.Stats{Capacity: 2, Leased: 2, Leases: 2}, pool.Stats())

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := pool.Claim(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		}()
		go func() { claim(t, pool).Release() }()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, gpupool.Stats{
			Capacity: 2, Leased: 2, PendingClaimers: 2, Leases: 2, Waits: 2,
		}, pool.Stats())

		cancel()
		synctest.Wait()
		require.Equal(t, gpupool.Stats{
			Capacity: 2, Leased: 2, PendingClaimers: 1, Leases: 2, Waits: 2, Cancellations: 1,
			WaitTime: time.Second,
		}, pool.Stats())

		time.Sleep(time.Second)
		first.Release()
		second.Release()
		synctest.Wait()
		require.Equal(t, gpupool.Stats{
			Capacity: 2, Leases: 3, Waits: 2, Cancellations: 1, WaitTime: 3 * time.Second,
		}, pool.Stats())
	})
}

func TestStatsNeverShowAnEffectWithoutItsCount(t *testing.T) {
	for range 500 {
		pool := gpupool.New(inventory(64))
		ctx, cancel := context.WithCancel(t.Context())
		var claimers sync.WaitGroup
		claimers.Go(func() {
			// Nothing is released, so that an effect lasts and each has a count
			// of its own: 64 leases, then 64 parked claims.
			for range 128 {
				if pool.Stats().Leased < 64 {
					claim(t, pool)
					continue
				}
				claimers.Go(func() {
					_, err := pool.Claim(ctx)
					assert.ErrorIs(t, err, context.Canceled)
				})
			}
		})
		for pending := 0; pending < 64; {
			stats := pool.Stats()
			require.GreaterOrEqual(t, stats.Leases, uint64(stats.Leased))
			require.GreaterOrEqual(t, stats.Waits, uint64(stats.PendingClaimers))
			pending = stats.PendingClaimers
		}
		cancel()
		claimers.Wait()
		stats := pool.Stats()
		require.Equal(t, stats.Waits, stats.Cancellations)
	}
}

// JSON and text.

func TestJSON(t *testing.T) {
	device := gpupool.GpuDevice{
		Index: 3, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4",
		UUID: "GPU-7a", PCIAddress: "0000:c1:00.0", RenderNode: "/dev/dri/renderD128",
	}
	since := time.Date(2026, 11, 30, 15, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name  string
		value any
		want  string
	}{
		{"a device", device,
			`{"index":3,"vendor":"nvidia","name":"NVIDIA L4","uuid":"GPU-7a","pci_address":"0000:c1:00.0","render_node":"/dev/dri/renderD128"}`},
		{"a bare device", gpupool.GpuDevice{},
			`{"index":0,"vendor":"","name":""}`},
		{"a free slot", gpupool.GpuLeaseEntry{GpuDevice: gpupool.GpuDevice{Name: "A380", Vendor: gpupool.VendorIntel}},
			`{"index":0,"vendor":"intel","name":"A380","leased":false}`},
		{"a leased slot", gpupool.GpuLeaseEntry{
			GpuDevice: gpupool.GpuDevice{Name: "W7900", Vendor: gpupool.VendorAMD}, Leased: true, LeasedSince: since, Label: "job 7/720p"},
			`{"index":0,"vendor":"amd","name":"W7900","leased":true,"leased_since":"2026-11-30T15:04:05Z","label":"job 7/720p"}`},
		{"statistics", gpupool.Stats{
			Capacity: 1, Leased: 2, PendingClaimers: 3, Leases: 4, Waits: 5, Cancellations: 6, WaitTime: 7},
			`{"capacity":1,"leased":2,"pending_claimers":3,"leases":4,"waits":5,"cancellations":6,"wait_ns":7}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := json.Marshal(test.value)
			require.NoError(t, err)
			require.Equal(t, test.want, string(got))
		})
	}
}

func TestText(t *testing.T) {
	device := gpupool.GpuDevice{Index: 3, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"}
	since := time.Date(2026, 11, 30, 15, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		value fmt.Stringer
		want  string
	}{
		{device, "nvidia:3 NVIDIA L4"},
		{gpupool.GpuDevice{Index: 3, Name: "Matrox G200"}, "gpu:3 Matrox G200"},
		{gpupool.GpuDevice{Vendor: gpupool.VendorAMD}, "amd:0"},
		{gpupool.GpuLeaseEntry{GpuDevice: device}, "nvidia:3 NVIDIA L4 [free]"},
		{gpupool.GpuLeaseEntry{GpuDevice: device, Leased: true, LeasedSince: since},
			"nvidia:3 NVIDIA L4 [leased since 2026-11-30T15:04:05Z]"},
		{gpupool.GpuLeaseEntry{GpuDevice: device, Leased: true, LeasedSince: since, Label: "job 7/720p"},
			"nvidia:3 NVIDIA L4 [leased since 2026-11-30T15:04:05Z: job 7/720p]"},
	} {
		require.Equal(t, test.want, test.value.String())
	}
}

// Copies.

func TestVetCatchesCopies(t *testing.T) {
	source := filepath.Join(t.TempDir(), "copies.go")
	require.NoError(t, os.WriteFile(source, []byte(`package gpupool

func copyPool(p *GpuPool) { _ = *p }

func copyLease(l *GpuLease) { _ = *l }
`), 0o600))
	// The overlay adds the file to the package without touching its folder.
	folder, err := os.Getwd()
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{
		"Replace": map[string]string{filepath.Join(folder, "copies.go"): source},
	})
	require.NoError(t, err)
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))

	output, err := exec.CommandContext(t.Context(), "go", "vet", "-copylocks", "-overlay", overlayFile, ".").CombinedOutput()
	require.Error(t, err, "vet let copies pass")
	require.Contains(t, string(output), "assignment copies lock value to _: github.com/gpupool/gpupool.GpuPool")
	require.Contains(t, string(output), "assignment copies lock value to _: github.com/gpupool/gpupool.GpuLease")
}
