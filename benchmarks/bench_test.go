package benchmarks

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"

	"github.com/gpupool/gpupool"
)

func nothing() {}

// One goroutine claims and gives back, alone.
func BenchmarkUncontended(b *testing.B) {
	forEachPeer(b, 8, 8, func(b *testing.B, p peer) {
		ctx := b.Context()
		for b.Loop() {
			if err := p.use(ctx, nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// More workers than GPUs: what is given back goes to a worker that waits. Each
// holder yields once.
func BenchmarkHandOff(b *testing.B) {
	for _, gpus := range []int{1, 8} {
		for _, workers := range []int{16, 1024, 16384} {
			b.Run(fmt.Sprintf("gpus=%d/workers=%d", gpus, workers), func(b *testing.B) {
				forEachPeer(b, gpus, gpus, func(b *testing.B, p peer) { handOff(b, p, workers) })
			})
		}
	}
}

func handOff(b *testing.B, p peer, workers int) {
	ctx := b.Context()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for w := range workers {
		rounds := (b.N + w) / workers // b.N in all
		wg.Go(func() {
			<-start
			for range rounds {
				if err := p.use(ctx, runtime.Gosched); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.ResetTimer() // making the workers is not the work
	close(start)
	wg.Wait()
}

func BenchmarkTry(b *testing.B) {
	try := func(free int, want bool) func(b *testing.B) {
		return func(b *testing.B) {
			forEachPeer(b, 8, free, func(b *testing.B, p peer) {
				for b.Loop() {
					if p.tryUse(nothing) != want {
						b.Fatal("the other outcome")
					}
				}
			})
		}
	}
	b.Run("outcome=hit", try(1, true))
	b.Run("outcome=miss", try(0, false))
}

// One slot is free, the last that gpupool looks at.
func BenchmarkOneFree(b *testing.B) {
	for _, slots := range []int{1, 8, 64, 1024} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			forEachPeer(b, slots, 1, func(b *testing.B, p peer) {
				ctx := b.Context()
				for b.Loop() {
					if err := p.use(ctx, nothing); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// A parked claim is cancelled and returns, while 900 to 999 others are parked.
func BenchmarkCancel(b *testing.B) {
	const parked, cancelled = 1000, 100
	for _, kind := range peers {
		if !kind.cancels {
			continue
		}
		b.Run("peer="+kind.name, func(b *testing.B) {
			p := kind.make(1)
			p.keep()
			b.ReportAllocs()
			for left := b.N; left > 0; left -= cancelled {
				b.StopTimer()
				queue := park(b, p, parked)
				b.StartTimer()
				for i := range min(left, cancelled) {
					queue[i*(parked/cancelled)].end()
				}
				b.StopTimer()
				for _, c := range queue {
					c.end()
				}
				b.StartTimer()
			}
		})
	}
}

type parkedClaim struct {
	cancel   context.CancelFunc
	returned chan struct{}
}

func (c parkedClaim) end() {
	c.cancel()
	<-c.returned
}

// park starts claims of a pool without a free device, and returns when all of
// them wait.
func park(b *testing.B, p peer, claims int) []parkedClaim {
	before := waiting()
	queue := make([]parkedClaim, claims)
	for i := range queue {
		ctx, cancel := context.WithCancel(b.Context())
		queue[i] = parkedClaim{cancel, make(chan struct{})}
		go func() {
			defer close(queue[i].returned)
			if err := p.use(ctx, nothing); err == nil {
				b.Error("there was a free device")
			}
		}()
	}
	for waiting() < before+uint64(claims) {
		runtime.Gosched()
	}
	return queue
}

// waiting returns how many goroutines are parked.
func waiting() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// A snapshot is taken while two goroutines claim and release. No peer has one.
func BenchmarkSnapshot(b *testing.B) {
	for _, slots := range []int{8, 64, 1024} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			pool := gpupool.New(make([]gpupool.GpuDevice, slots))
			done := make(chan struct{})
			var claimers sync.WaitGroup
			for range 2 {
				claimers.Go(func() {
					for {
						if lease, ok := pool.TryClaim(); ok {
							lease.Release()
						}
						select {
						case <-done:
							return
						default:
						}
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				pool.SnapshotLeases()
			}
			close(done)
			claimers.Wait()
		})
	}
}
