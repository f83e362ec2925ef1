package gpupool

import (
	"sync/atomic"
	"time"
)

// A GpuLease is the exclusive use of one slot's GPU, from the [GpuPool.Claim]
// or [GpuPool.TryClaim] that returned it until its [GpuLease.Release].
//
// A nil lease is what a host without GPUs hands out, and it means: encode on
// the CPU. Every method of a nil lease is safe, so the code that holds a lease
// is the same on every host.
//
// All methods are safe for concurrent use. A GpuLease must not be copied. One
// that is dropped without Release keeps its slot leased for as long as the pool
// lives: the pool cannot know whether an encoder still runs there.
type GpuLease struct {
	pool  *GpuPool
	slot  int
	since time.Duration // from the pool's start

	// label is the lease's own rather than the slot's, so that a label set
	// through an old lease can never show on the slot's next one.
	label atomic.Pointer[string]
}

// Device returns the leased GPU as it was given to [New], and true. On a nil
// lease it returns false: there is no GPU, encode on the CPU. It never blocks,
// and its answer is the same after Release.
func (l *GpuLease) Device() (GpuDevice, bool) {
	if l == nil {
		return GpuDevice{}, false
	}
	return l.pool.slots[l.slot].device, true
}

// SetLabel says who holds the lease and for what ("job 7/720p", "quarantined:
// Xid 79"), for [GpuPool.SnapshotLeases] to show until Release. It replaces any
// earlier label and never blocks. On a nil or released lease it does nothing
// that anyone can see.
func (l *GpuLease) SetLabel(label string) {
	if l != nil {
		l.label.Store(&label)
	}
}

// Release ends the lease: the slot is free, and the claimer that has been
// parked longest is served. Call it when the encoder's process or session is
// gone, not before.
//
// Release never waits for a GPU or a claimer. Only the first call on a lease
// does anything, also when several goroutines call at once; a later one leaves
// the slot's next holder alone. On a nil lease it does nothing. So a deferred
// Release is always right.
//
// The call that ends the lease synchronizes before the return of the Claim or
// TryClaim that next leases the slot: what was written under this lease can be
// read under that one.
func (l *GpuLease) Release() {
	if l == nil {
		return
	}
	p, s := l.pool, l.slot
	// The swap decides which call is the one that releases. No later lease can
	// be mistaken for this one: its address is not reused while a caller still
	// has it.
	if !p.slots[s].holder.CompareAndSwap(l, nil) {
		return
	}
	// Permit last. A permit promises its taker a set bit; given back first, it
	// would send a claimer to look for a bit that is not there yet. The holder
	// goes before the bit, or this lease would show as the slot's next.
	p.free[s/wordBits].Or(1 << (s % wordBits))
	p.permits.Release(1)
}
