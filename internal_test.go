package gpupool

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What cannot be brought about from outside the package.

func TestAPermitWithoutAFreeSlotIsABug(t *testing.T) {
	pool := New(make([]GpuDevice, 65))
	for w := range pool.free {
		pool.free[w].Store(0)
	}
	require.PanicsWithValue(t, "gpupool: bug: a claimer has a permit but no slot is free", func() {
		pool.TryClaim()
	})
}

// A claimer that has cleared its slot's bit and not yet stored its lease, and a
// Release that has removed the lease and not yet set the bit, look the same.
func TestASnapshotOfALeaseThatIsChangingHands(t *testing.T) {
	pool := New([]GpuDevice{{Name: "NVIDIA L4"}})
	pool.takeSlot()
	before := time.Now()
	entry := pool.SnapshotLeases()[0]
	require.True(t, entry.Leased)
	require.False(t, entry.LeasedSince.Before(before), "the lease looks older than it is")
	require.Empty(t, entry.Label)
	require.Equal(t, 1, pool.Stats().Leased)
}

// Whoever looks on needs no lock: not even the semaphore's, which every claim
// and release takes.
func TestLookingOnTakesNoLock(t *testing.T) {
	pool := New(make([]GpuDevice, 1))
	lock := (*sync.Mutex)(reflect.ValueOf(pool.permits).Elem().FieldByName("mu").Addr().UnsafePointer())
	lock.Lock()
	defer lock.Unlock()

	looked := make(chan struct{})
	go func() {
		pool.SnapshotLeases()
		pool.Stats()
		pool.PendingClaimers()
		pool.Capacity()
		close(looked)
	}()
	select {
	case <-looked:
	case <-time.After(time.Minute):
		t.Fatal("blocked by the semaphore's lock")
	}
}
