package gpupool_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/gpupool/gpupool"
)

// The benchmarks run the pool beside what it is made of, a bare semaphore, and
// beside what people write by hand, a buffered channel of devices:
//
//	go test -run '^$' -bench . -count 6 | tee new.txt
//	benchstat -col /pool new.txt
//
// Each contender is a function that claims, calls hold, and releases.

type contender struct {
	name string
	with func(ctx context.Context, hold func()) error
}

func contenders(gpus int) []contender {
	pool := gpupool.New(make([]gpupool.GpuDevice, gpus))
	sem := semaphore.NewWeighted(int64(gpus))
	devices := make(chan gpupool.GpuDevice, gpus)
	for range gpus {
		devices <- gpupool.GpuDevice{}
	}
	return []contender{
		{"semaphore", func(ctx context.Context, hold func()) error {
			if err := sem.Acquire(ctx, 1); err != nil {
				return err
			}
			hold()
			sem.Release(1)
			return nil
		}},
		{"gpupool", func(ctx context.Context, hold func()) error {
			lease, err := pool.Claim(ctx)
			if err != nil {
				return err
			}
			hold()
			lease.Release()
			return nil
		}},
		{"channel", func(ctx context.Context, hold func()) error {
			select {
			case device := <-devices:
				hold()
				devices <- device
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
	}
}

// One goroutine claims and releases in a pool that nobody else uses.
func BenchmarkUncontended(b *testing.B) {
	for _, c := range contenders(8) {
		b.Run("pool="+c.name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if err := c.with(ctx, func() {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Sixty-four goroutines share eight GPUs, and each holder yields once, so that a
// release nearly always hands over to a parked claimer.
func BenchmarkHandOff(b *testing.B) {
	const workers, gpus = 64, 8
	for _, c := range contenders(gpus) {
		b.Run("pool="+c.name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for range share(b.N, workers, w) {
						if err := c.with(ctx, runtime.Gosched); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// share is worker w's part of n rounds.
func share(n, workers, w int) int {
	if w < n%workers {
		return n/workers + 1
	}
	return n / workers
}

// The search for a free slot reads a word for 64 slots: with only the last of
// 1,024 free it costs a claim 16 reads.
func BenchmarkLastFreeSlot(b *testing.B) {
	for _, slots := range []int{1, 64, 1024} {
		b.Run("slots="+strconv.Itoa(slots), func(b *testing.B) {
			pool := gpupool.New(make([]gpupool.GpuDevice, slots))
			for range slots - 1 {
				_, ok := pool.TryClaim()
				require.True(b, ok)
			}
			for b.Loop() {
				lease, ok := pool.TryClaim()
				if !ok {
					b.Fatal("no slot is free")
				}
				lease.Release()
			}
		})
	}
}
