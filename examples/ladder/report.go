package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/gpupool/gpupool"
)

// A report tells on stdout, in lines of JSON, what the pool has and does.
type report struct {
	pool *gpupool.GpuPool
	out  *json.Encoder
	tick time.Duration
}

func newReport(pool *gpupool.GpuPool, out io.Writer, tick time.Duration) *report {
	return &report{pool, json.NewEncoder(out), tick}
}

// hello lists the GPUs.
func (r *report) hello(gpus inventory) error {
	return r.out.Encode(struct {
		Type    string              `json:"type"`
		GpuPool []gpupool.GpuDevice `json:"gpu_pool"`
		Dropped []dropped           `json:"dropped"`
	}{"hello", append([]gpupool.GpuDevice{}, gpus.devices...), append([]dropped{}, gpus.dropped...)}) // [], not null
}

// run tells the load on every tick, and once more when all is done.
func (r *report) run(done <-chan struct{}) error {
	ticker := time.NewTicker(r.tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := r.load(); err != nil {
				return err
			}
		case <-done:
			return r.load()
		}
	}
}

func (r *report) load() error {
	stats := r.pool.Stats()
	return r.out.Encode(struct {
		Type            string                  `json:"type"`
		GpuPool         []gpupool.GpuLeaseEntry `json:"gpu_pool"`
		PendingClaimers int                     `json:"pending_claimers"`
		Stats           gpupool.Stats           `json:"stats"`
	}{"worker_load", r.pool.SnapshotLeases(), stats.PendingClaimers, stats})
}

// done tells what was made, and in which time.
func (r *report) done(rungs []*rung, wall time.Duration) error {
	type result struct {
		Height         int    `json:"height"`
		Frames         int    `json:"frames"`
		Segments       int    `json:"segments"`
		HelperSegments int64  `json:"helper_segments"`
		File           string `json:"file"`
	}
	var results []result
	for _, rung := range rungs {
		results = append(results, result{rung.height, rung.frames(), len(rung.segments), rung.helped.Load(), rung.file})
	}
	return r.out.Encode(struct {
		Type  string   `json:"type"`
		Wall  int64    `json:"wall_ms"`
		Rungs []result `json:"rungs"`
	}{"done", wall.Milliseconds(), results})
}
