// Package benchmarks measures gpupool beside what people would use instead. It
// is a module of its own, so that the others never reach gpupool's users.
package benchmarks

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gpupool/gpupool"
)

// A peer is a pool of devices.
type peer interface {
	// use claims a device, calls hold, and gives the device back.
	use(ctx context.Context, hold func()) error
	// tryUse does the same if a device is free.
	tryUse(hold func()) bool
	// keep claims a free device for good.
	keep()
}

// peers makes one of each kind. The first is what the others are compared with.
var peers = []struct {
	name string
	make func(devices int) peer
	// cancels tells whether the end of a context ends a wait.
	cancels bool
}{
	{"semaphore", newSemaphore, true},
	{"gpupool", newGpuPool, true},
	{"channel", newChannel, true},
	{"puddle", newPuddle, true},
	{"cond", newCond, false},
}

// forEachPeer runs a benchmark for each peer, with all but free of its devices
// in use.
func forEachPeer(b *testing.B, devices, free int, run func(b *testing.B, p peer)) {
	for _, kind := range peers {
		b.Run("peer="+kind.name, func(b *testing.B) {
			p := kind.make(devices)
			for range devices - free {
				p.keep()
			}
			b.ReportAllocs()
			run(b, p)
		})
	}
}

type gpuPool struct{ pool *gpupool.GpuPool }

func newGpuPool(devices int) peer {
	return gpuPool{gpupool.New(make([]gpupool.GpuDevice, devices))}
}

func (p gpuPool) use(ctx context.Context, hold func()) error {
	lease, err := p.pool.Claim(ctx)
	if err != nil {
		return err
	}
	hold()
	lease.Release()
	return nil
}

func (p gpuPool) tryUse(hold func()) bool {
	lease, ok := p.pool.TryClaim()
	if ok {
		hold()
		lease.Release()
	}
	return ok
}

func (p gpuPool) keep() { p.pool.TryClaim() }

// bareSemaphore counts devices and hands out none: the floor under a pool that
// is made from it.
type bareSemaphore struct{ *semaphore.Weighted }

func newSemaphore(devices int) peer {
	return bareSemaphore{semaphore.NewWeighted(int64(devices))}
}

func (s bareSemaphore) use(ctx context.Context, hold func()) error {
	if err := s.Acquire(ctx, 1); err != nil {
		return err
	}
	hold()
	s.Release(1)
	return nil
}

func (s bareSemaphore) tryUse(hold func()) bool {
	ok := s.TryAcquire(1)
	if ok {
		hold()
		s.Release(1)
	}
	return ok
}

func (s bareSemaphore) keep() { s.TryAcquire(1) }

// channel is the buffered channel of devices that people write by hand.
type channel chan gpupool.GpuDevice

func newChannel(devices int) peer {
	c := make(channel, devices)
	for range devices {
		c <- gpupool.GpuDevice{}
	}
	return c
}

func (c channel) use(ctx context.Context, hold func()) error {
	select {
	case device := <-c:
		hold()
		c <- device
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c channel) tryUse(hold func()) bool {
	select {
	case device := <-c:
		hold()
		c <- device
		return true
	default:
		return false
	}
}

func (c channel) keep() { <-c }

// puddlePool is jackc/puddle with all its resources made beforehand.
type puddlePool struct {
	*puddle.Pool[gpupool.GpuDevice]
}

func newPuddle(devices int) peer {
	pool, err := puddle.NewPool(&puddle.Config[gpupool.GpuDevice]{
		Constructor: func(context.Context) (gpupool.GpuDevice, error) { return gpupool.GpuDevice{}, nil },
		MaxSize:     int32(devices),
	})
	if err != nil {
		panic(err)
	}
	for range devices {
		if err := pool.CreateResource(context.Background()); err != nil {
			panic(err)
		}
	}
	return puddlePool{pool}
}

func (p puddlePool) use(ctx context.Context, hold func()) error {
	device, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	hold()
	device.Release()
	return nil
}

func (p puddlePool) tryUse(hold func()) bool {
	device, err := p.TryAcquire(context.Background())
	if err != nil {
		return false
	}
	hold()
	device.Release()
	return true
}

func (p puddlePool) keep() {
	if _, err := p.TryAcquire(context.Background()); err != nil {
		panic(err)
	}
}

// cond is a mutex, a condition variable and a list of the free devices, as often
// written by hand. Nothing ends a wait but a device.
type cond struct {
	mu       sync.Mutex
	returned sync.Cond
	free     []gpupool.GpuDevice
}

func newCond(devices int) peer {
	c := &cond{free: make([]gpupool.GpuDevice, devices)}
	c.returned.L = &c.mu
	return c
}

func (c *cond) use(_ context.Context, hold func()) error {
	c.mu.Lock()
	for len(c.free) == 0 {
		c.returned.Wait()
	}
	c.hold(hold)
	return nil
}

func (c *cond) tryUse(hold func()) bool {
	c.mu.Lock()
	if len(c.free) == 0 {
		c.mu.Unlock()
		return false
	}
	c.hold(hold)
	return true
}

// hold takes a free device under the lock, which it unlocks, and gives it back.
func (c *cond) hold(hold func()) {
	device := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.mu.Unlock()
	hold()
	c.mu.Lock()
	c.free = append(c.free, device)
	c.mu.Unlock()
	c.returned.Signal()
}

func (c *cond) keep() { c.free = c.free[1:] }

// The peers do the same work: each has as many devices as it was made with.
func TestPeersHaveTheirDevicesAndNoMore(t *testing.T) {
	for _, kind := range peers {
		t.Run(kind.name, func(t *testing.T) {
			p := kind.make(3)
			uses := 0
			var nest func()
			nest = func() {
				uses++
				if uses < 3 {
					require.NoError(t, p.use(t.Context(), nest))
					return
				}
				require.False(t, p.tryUse(func() {}), "a fourth device")
				if kind.cancels {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					require.ErrorIs(t, p.use(ctx, func() {}), context.Canceled)
				}
			}
			require.True(t, p.tryUse(nest))
			require.Equal(t, 3, uses)

			p.keep()
			p.keep()
			require.True(t, p.tryUse(func() {
				require.False(t, p.tryUse(func() {}), "keep keeps nothing")
			}))
		})
	}
}
