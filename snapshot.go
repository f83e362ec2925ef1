package gpupool

import (
	"math/bits"
	"time"
)

// A GpuLeaseEntry is the state of one slot in a [GpuPool.SnapshotLeases]. In
// JSON the device's fields stand beside the lease's.
type GpuLeaseEntry struct {
	GpuDevice

	// Leased tells whether the slot was handed out. The other two fields are
	// zero if it was not.
	Leased bool `json:"leased"`

	// LeasedSince is when the lease began. It is never zero if Leased. It has
	// a monotonic reading, for time.Since; its wall time takes no notice of
	// changes that were made to the host's clock since the pool was made.
	LeasedSince time.Time `json:"leased_since,omitzero"`

	// Label is the last one set by [GpuLease.SetLabel] on this lease.
	Label string `json:"label,omitempty"`
}

// String returns the device and the state of its lease:
// "nvidia:3 NVIDIA L4 [leased since 2026-11-30T15:04:05Z: job 7/720p]" or
// "nvidia:3 NVIDIA L4 [free]".
func (e GpuLeaseEntry) String() string {
	if !e.Leased {
		return e.GpuDevice.String() + " [free]"
	}
	state := "leased since " + e.LeasedSince.Format(time.RFC3339)
	if e.Label != "" {
		state += ": " + e.Label
	}
	return e.GpuDevice.String() + " [" + state + "]"
}

// SnapshotLeases returns an entry for each slot, in inventory order, in a slice
// that is the caller's: empty, not nil, on a CPU-only host. It takes no lock,
// never blocks and never delays a claimer.
//
// In a pool of up to 64 slots, Leased is a picture of one point in time; in a
// larger one, of one point for each 64 slots. The picture is momentary: a slot
// that reads free may already be promised to a claimer that is about to take
// it, so an arbiter decides by [GpuPool.TryClaim] and not by a snapshot. The
// other fields are read right after. If the lease is just being handed out or
// returned then, Label can be empty and LeasedSince the time of the snapshot.
func (p *GpuPool) SnapshotLeases() []GpuLeaseEntry {
	entries := make([]GpuLeaseEntry, len(p.slots))
	var free uint64
	for s := range p.slots {
		if s%wordBits == 0 {
			free = p.free[s/wordBits].Load()
		}
		entries[s] = p.slots[s].entry(free&(1<<(s%wordBits)) == 0)
	}
	return entries
}

// entry describes the slot, given what its free bit said.
func (s *slot) entry(leased bool) GpuLeaseEntry {
	e := GpuLeaseEntry{GpuDevice: s.device, Leased: leased}
	if !leased {
		return e
	}
	holder := s.holder.Load()
	if holder == nil {
		// Between the bit and the holder. A zero time would make this instant
		// look like a lease of two thousand years.
		e.LeasedSince = time.Now()
		return e
	}
	e.LeasedSince = holder.pool.start.Add(holder.since)
	// A label that was set late, after the lease's Release, must not show: while
	// the lease is still the holder, what was read was set in time.
	if label := holder.label.Load(); label != nil && s.holder.Load() == holder {
		e.Label = *label
	}
	return e
}

// Stats describes a pool's load: its status at a moment, and counters that only
// go up, from the pool's creation.
//
// The fields are read one after the other while the pool works on. Even so,
// Leases is never below Leased, and Waits never below PendingClaimers.
type Stats struct {
	// Status.

	Capacity        int `json:"capacity"`         // slots
	Leased          int `json:"leased"`           // slots handed out
	PendingClaimers int `json:"pending_claimers"` // claimers that wait for a GPU

	// Counters.

	Leases        uint64        `json:"leases"`        // leases granted, by Claim and TryClaim
	Waits         uint64        `json:"waits"`         // claims that found no GPU free and parked
	Cancellations uint64        `json:"cancellations"` // parked claims ended by their context
	WaitTime      time.Duration `json:"wait_ns"`       // spent parked, by claims that no longer are
}

// Stats returns the pool's load. It takes no lock and never waits.
func (p *GpuPool) Stats() Stats {
	s := Stats{Capacity: len(p.slots), Leased: len(p.slots)}
	for w := range p.free {
		s.Leased -= bits.OnesCount64(p.free[w].Load())
	}
	s.PendingClaimers = p.PendingClaimers()
	s.Leases = p.leases.Load()
	s.Waits = p.waits.Load()
	s.Cancellations = p.cancellations.Load()
	s.WaitTime = time.Duration(p.waitTime.Load())
	return s
}
