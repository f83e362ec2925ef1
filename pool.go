// Package gpupool leases the GPUs of a video worker, each to at most one holder
// at a time, first come first served.
//
// Two encoders on one GPU can deadlock its hardware encoder, so a goroutine
// that is about to start one claims a GPU first, keeps the lease until the
// encoder has exited, and releases it:
//
//	lease, err := pool.Claim(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//	if device, ok := lease.Device(); ok {
//		return encodeOnGPU(ctx, device)
//	}
//	return encodeOnCPU(ctx)
//
// A host without GPUs has an empty pool, whose Claim returns a nil lease at
// once; the code above is the same there.
//
// The pool has one slot for each device of the inventory given to [New]. A
// lease is a slot handed out; a claimer is a goroutine inside [GpuPool.Claim],
// pending while it waits there. An arbiter, which lends idle GPUs to helpers,
// uses [GpuPool.TryClaim], which never takes what a pending claimer waits for.
//
// The pool serves one process. It knows nothing of other processes on the host,
// never takes a lease back, and sets no limit on how long one lasts.
package gpupool

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const wordBits = 64

// A GpuPool leases each GPU of its inventory to at most one holder at a time.
// All methods are safe for concurrent use. The zero value is the pool of a
// CPU-only host, as [New] returns for an empty inventory. A GpuPool must not be
// copied.
type GpuPool struct {
	// slots is the inventory, in its order. New sets it; the slice and the
	// devices never change, so reading them takes no lock.
	slots []slot

	// start is when New made the pool. Times are kept as the monotonic time
	// since then, which takes half as long to read as time.Now.
	start time.Time

	// permits has one permit a slot, and parks claimers in FIFO order. It is
	// nil in the zero pool: every use comes after a look at len(slots).
	permits *semaphore.Weighted

	// free has one bit a slot, set while the slot is free: slot s is bit s%64
	// of word s/64, and the bits past the last slot stay clear. Only a claimer
	// that has a permit clears a bit, after it got the permit; after New, only
	// the Release that ends the slot's lease sets it, before it returns the
	// permit. So
	// there are always at least as many set bits as permits that are free or
	// in the hands of claimers still looking for a slot. takeSlot relies on it.
	free []atomic.Uint64

	// pending counts the claimers from the moment that found them no permit
	// until they have a lease or an error. TryClaim relies on the latter: a
	// claimer that no longer counts has nothing left to be robbed of.
	pending atomic.Int64

	// The counters of Stats. leases and waits go up before what they count can
	// be seen, a leased slot or a pending claimer, and Stats reads them after
	// those.
	leases        atomic.Uint64
	waits         atomic.Uint64
	cancellations atomic.Uint64
	waitTime      atomic.Int64 // nanoseconds
}

// A slot is a GPU's place in the pool.
type slot struct {
	device GpuDevice

	// holder is the slot's live lease. Only the claimer that cleared the
	// slot's free bit stores it, and only that lease's Release removes it,
	// before it sets the bit. So it is nil whenever the bit is set, and for the
	// moments between the two also when it is clear.
	holder atomic.Pointer[GpuLease]
}

// New returns a pool with one slot for each device, in the order given, all
// free. It copies the slice. An empty or nil inventory makes the pool of a
// CPU-only host.
//
// A device listed n times has n slots, and so up to n leases at a time: that is
// the way to allow n encode sessions on one GPU. It gives up the protection
// that the pool exists for, so list a device twice only if its driver and
// encoder are known to bear it.
func New(devices []GpuDevice) *GpuPool {
	p := &GpuPool{
		start:   time.Now(),
		slots:   make([]slot, len(devices)),
		permits: semaphore.NewWeighted(int64(len(devices))),
		free:    make([]atomic.Uint64, (len(devices)+wordBits-1)/wordBits),
	}
	for s, device := range devices {
		p.slots[s].device = device
		p.free[s/wordBits].Or(1 << (s % wordBits))
	}
	return p
}

// Claim leases the lowest free slot. When no GPU is free it parks until one is,
// behind the claimers that parked before; the wait ends early when ctx does.
//
// On success the lease is the caller's until its Release, whatever becomes of
// ctx. On a CPU-only host Claim returns a nil lease and a nil error at once:
// encode on the CPU. When ctx is done, before the call or during the wait,
// Claim returns a nil lease and the context's error, and leaves the pool as if
// it had not been called, but for the counters of [Stats].
func (p *GpuPool) Claim(ctx context.Context) (*GpuLease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(p.slots) == 0 {
		return nil, nil
	}
	if p.permits.TryAcquire(1) {
		return p.lease(p.now()), nil
	}
	return p.park(ctx)
}

// TryClaim leases the lowest free slot, if there is one and nobody is pending.
// Otherwise, and always on a CPU-only host, it returns a nil lease and false,
// and leaves the pool unchanged. It never waits and never counts as pending.
//
// A claimer that has been seen pending gets its lease, or ends with its context,
// before any TryClaim that begins later succeeds. The failure can be of the
// moment: a claimer that has just been served counts until it returns. So an
// arbiter tries again after each Release and after each return of a Claim.
func (p *GpuPool) TryClaim() (*GpuLease, bool) {
	// The semaphore refuses while its queue has somebody in it. A claimer that
	// counts as pending may not have reached the queue yet, and a permit
	// returned in between would be taken from under it: hence the count.
	if len(p.slots) == 0 || p.pending.Load() > 0 || !p.permits.TryAcquire(1) {
		return nil, false
	}
	return p.lease(p.now()), true
}

// Capacity returns the number of slots: 0 on a CPU-only host.
func (p *GpuPool) Capacity() int {
	return len(p.slots)
}

// PendingClaimers returns the number of claimers that found no GPU free and
// wait for one. A claim that is served at once never counts. While it is above
// zero an arbiter has nothing to give away: TryClaim fails.
//
// The number is of the moment. A claimer it counts may still be on its way into
// the queue.
func (p *GpuPool) PendingClaimers() int {
	return int(p.pending.Load())
}

// park waits for a permit, in line, and leases a slot with it.
func (p *GpuPool) park(ctx context.Context) (*GpuLease, error) {
	p.waits.Add(1)
	p.pending.Add(1)
	defer p.pending.Add(-1)

	parked := p.now()
	err := p.permits.Acquire(ctx, 1)
	now := p.now()
	p.waitTime.Add(int64(now - parked))
	if err != nil {
		p.cancellations.Add(1)
		return nil, err
	}
	return p.lease(now), nil
}

// now returns the time since start. The clock is the dearest part of a claim
// that need not park: such a claim reads it once.
func (p *GpuPool) now() time.Duration {
	return time.Since(p.start)
}

// lease turns a permit of the caller's into a lease that begins now.
func (p *GpuPool) lease(now time.Duration) *GpuLease {
	p.leases.Add(1)
	l := &GpuLease{pool: p, slot: p.takeSlot(), since: now}
	p.slots[l.slot].holder.Store(l)
	return l
}

// takeSlot clears the lowest set bit of free and returns its slot. The caller
// has a permit.
//
// One pass upwards always finds a bit, however many claims and releases go on
// around it. Call claimers with a permit and no slot yet seekers, and say that
// a seeker passes word w when it reads it as zero. At all times the words above
// w have at least one set bit for each seeker that has passed w:
//
//   - for w = -1, before the first word, it is the invariant of free;
//   - a seeker passes w at an instant when w is zero, so that the bits above w
//     are all the bits above w-1, enough for those who passed w-1, of whom
//     those who passed w are a part;
//   - a bit above w that is cleared is cleared by a seeker that has passed w,
//     and with it goes that seeker; a bit that is set only adds one.
//
// Above the last word there are no bits, so no seeker ever passes it. With the
// permit returned before the bit is set the first step fails; with a scan that
// starts elsewhere than at slot 0 the last does, as bits above w then go to
// seekers that never passed it.
func (p *GpuPool) takeSlot() int {
	for w := range p.free {
		word := &p.free[w]
		for free := word.Load(); free != 0; free = word.Load() {
			if word.CompareAndSwap(free, free&(free-1)) {
				return w*wordBits + bits.TrailingZeros64(free)
			}
		}
	}
	panic("gpupool: bug: a claimer has a permit but no slot is free")
}
