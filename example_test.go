package gpupool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gpupool/gpupool"
)

// A variant goroutine claims a GPU, and encodes on the CPU where there is none.
// The code is the same on both hosts.
func Example() {
	encode := func(ctx context.Context, pool *gpupool.GpuPool, rendition string) error {
		lease, err := pool.Claim(ctx)
		if err != nil {
			return fmt.Errorf("claim a GPU for %s: %w", rendition, err)
		}
		// After the encoder has exited, not before.
		defer lease.Release()
		lease.SetLabel("job 7/" + rendition)

		if device, ok := lease.Device(); ok {
			fmt.Println(rendition, "on", device)
		} else {
			fmt.Println(rendition, "on the CPU")
		}
		return nil
	}

	withGPU := gpupool.New([]gpupool.GpuDevice{
		{Index: 0, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"},
	})
	cpuOnly := gpupool.New(nil)
	for _, pool := range []*gpupool.GpuPool{withGPU, cpuOnly} {
		var variants sync.WaitGroup
		variants.Go(func() {
			if err := encode(context.Background(), pool, "720p"); err != nil {
				fmt.Println(err)
			}
		})
		variants.Wait()
	}

	// Output:
	// 720p on nvidia:0 NVIDIA L4
	// 720p on the CPU
}

// An arbiter sends helpers to the slowest variant while a GPU is idle. A GPU
// that a variant waits for is not idle: TryClaim leaves it alone.
func ExampleGpuPool_TryClaim() {
	pool := gpupool.New([]gpupool.GpuDevice{
		{Index: 0, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"},
		{Index: 1, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"},
		{Index: 2, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"},
	})
	variant, err := pool.Claim(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer variant.Release()
	variant.SetLabel("job 7/1080p")

	dispatch := func(slowest string, help func(*gpupool.GpuLease)) {
		for {
			lease, ok := pool.TryClaim()
			if !ok {
				return
			}
			lease.SetLabel("helper of " + slowest)
			help(lease)
		}
	}
	var helpers []*gpupool.GpuLease
	dispatch("job 7/1080p", func(lease *gpupool.GpuLease) {
		helpers = append(helpers, lease)
	})
	for _, entry := range pool.SnapshotLeases() {
		fmt.Printf("GPU %d: %s\n", entry.Index, entry.Label)
	}
	for _, lease := range helpers {
		lease.Release()
	}

	// Output:
	// GPU 0: job 7/1080p
	// GPU 1: helper of job 7/1080p
	// GPU 2: helper of job 7/1080p
}

// A worker reports its load as JSON.
func ExampleGpuPool_SnapshotLeases() {
	pool := gpupool.New([]gpupool.GpuDevice{
		{Index: 0, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4", UUID: "GPU-8f2e"},
		{Index: 2, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4", UUID: "GPU-c41a"},
	})
	lease, err := pool.Claim(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	lease.SetLabel("job 7/720p")

	entries := pool.SnapshotLeases()
	for i := range entries {
		entries[i].LeasedSince = time.Time{} // left out here: it differs from run to run
	}
	report, err := json.MarshalIndent(map[string]any{
		"type":             "worker_load",
		"gpu_pool":         entries,
		"pending_claimers": pool.PendingClaimers(),
	}, "", "  ")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(report))

	// Output:
	// {
	//   "gpu_pool": [
	//     {
	//       "index": 0,
	//       "vendor": "nvidia",
	//       "name": "NVIDIA L4",
	//       "uuid": "GPU-8f2e",
	//       "leased": true,
	//       "label": "job 7/720p"
	//     },
	//     {
	//       "index": 2,
	//       "vendor": "nvidia",
	//       "name": "NVIDIA L4",
	//       "uuid": "GPU-c41a",
	//       "leased": false
	//     }
	//   ],
	//   "pending_claimers": 0,
	//   "type": "worker_load"
	// }
}

// A GPU that fails is taken out of rotation by keeping its lease: nobody else
// gets it, and the label tells why.
func ExampleGpuLease_SetLabel() {
	pool := gpupool.New([]gpupool.GpuDevice{
		{Index: 0, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"},
		{Index: 1, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4"},
	})
	encode := func(device gpupool.GpuDevice) (healthy bool) { return device.Index != 0 }

	for range 2 {
		lease, err := pool.Claim(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		device, _ := lease.Device()
		if !encode(device) {
			lease.SetLabel("quarantined: Xid 79")
			continue // without Release
		}
		fmt.Println("encoded on", device)
		lease.Release()
	}
	fmt.Println(pool.SnapshotLeases()[0].Label)
	fmt.Println("left:", pool.Capacity()-pool.Stats().Leased)

	// Output:
	// encoded on nvidia:1 NVIDIA L4
	// quarantined: Xid 79
	// left: 1
}
