package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gpupool/gpupool"
	"github.com/gpupool/gpupool/detect"
)

const vendorSimulated gpupool.GpuVendor = "simulated"

// An inventory is the GPUs to encode on, each with its encoder.
type inventory struct {
	devices  []gpupool.GpuDevice
	encoders map[gpupool.GpuDevice]encoder
	dropped  []dropped
}

// A dropped GPU is one that cannot encode.
type dropped struct {
	gpupool.GpuDevice
	Reason string `json:"reason"`
}

func (inv *inventory) add(device gpupool.GpuDevice, e encoder) {
	if inv.encoders == nil {
		inv.encoders = map[gpupool.GpuDevice]encoder{}
	}
	inv.devices = append(inv.devices, device)
	inv.encoders[device] = e
}

// encoderFor returns the encoder of the lease's GPU, or the CPU's for a nil
// lease.
func (inv inventory) encoderFor(lease *gpupool.GpuLease) encoder {
	if device, ok := lease.Device(); ok {
		return inv.encoders[device]
	}
	return cpu
}

// An encoder is what the ffmpeg command needs to encode in a certain place. The
// GPU is addressed by what names it alone: an ordinal depends on who counts.
type encoder struct {
	env    []string
	open   []string // arguments before the input
	filter string   // after scaling
	codec  []string
}

var cpu = encoder{
	filter: "format=yuv420p",
	codec:  []string{"-c:v", "libx264", "-preset", "veryfast", "-crf", "23"},
}

func simulated(n int) inventory {
	var inv inventory
	for i := range n {
		e := cpu
		e.env = []string{"SIMULATED_GPU=" + strconv.Itoa(i)}
		e.codec = slices.Concat(cpu.codec, []string{"-threads", "1"})
		inv.add(gpupool.GpuDevice{Index: i, Vendor: vendorSimulated, Name: "one thread of libx264"}, e)
	}
	return inv
}

// A host is the GPUs that were detected.
type host struct {
	devices []gpupool.GpuDevice

	// counted has the GPUs that CUDA's ordinals count, in PCI order: those too
	// that CUDA_VISIBLE_DEVICES hides from this process. It is empty if a fault
	// makes the count uncertain.
	counted []gpupool.GpuDevice
}

// detectHost finds the GPUs of the host. One without GPUs is only taken for that
// when it is known.
func detectHost(status *status) (host, error) {
	devices, err := checkDetected(detect.GPUs())
	if err != nil {
		if len(devices) == 0 {
			return host{}, err
		}
		status.line("%v", err)
	}
	counted, err := detect.Scan(os.DirFS("/"), func(string) (string, bool) { return "", false })
	if err != nil {
		counted = nil
	}
	return host{devices, counted}, nil
}

// checkDetected says what an error of the detection means. It is fatal if it
// returns no devices with it.
func checkDetected(devices []gpupool.GpuDevice, err error) ([]gpupool.GpuDevice, error) {
	switch {
	case err == nil, errors.Is(err, errors.ErrUnsupported):
		return devices, nil
	case len(devices) == 0:
		return nil, fmt.Errorf("it cannot be told which GPUs there are (-gpus 0 encodes on the CPU): %w", err)
	}
	return devices, fmt.Errorf("some GPUs may be left out: %w", err)
}

// encoders returns the ways to encode on a GPU, the best first.
func (h host) encoders(device gpupool.GpuDevice) ([]encoder, error) {
	vaapi := func(options ...string) encoder {
		return encoder{
			open:   []string{"-vaapi_device", device.RenderNode},
			filter: "format=nv12,hwupload",
			codec:  append([]string{"-c:v", "h264_vaapi", "-qp", "23"}, options...),
		}
	}
	switch device.Vendor {
	case gpupool.VendorNVIDIA:
		// The process sees one GPU, which is then its number 0.
		env := []string{"CUDA_VISIBLE_DEVICES=" + device.UUID}
		if device.UUID == "" {
			ordinal, err := h.cudaOrdinal(device)
			if err != nil {
				return nil, err
			}
			env = []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strconv.Itoa(ordinal)}
		}
		return []encoder{{
			env:    env,
			filter: "format=yuv420p",
			codec:  []string{"-c:v", "h264_nvenc", "-gpu", "0", "-rc", "vbr", "-cq", "23", "-b:v", "0"},
		}}, nil
	case gpupool.VendorAMD:
		return []encoder{vaapi()}, nil
	case gpupool.VendorIntel:
		// Newer ones have only the low-power encoder, which is not the default.
		return []encoder{vaapi(), vaapi("-low_power", "1")}, nil
	}
	return nil, fmt.Errorf("no encoder is known for %s", device)
}

// cudaOrdinal returns the GPU's number in CUDA's PCI order.
func (h host) cudaOrdinal(device gpupool.GpuDevice) (int, error) {
	ordinal := 0
	for _, d := range h.counted {
		if d.PCIAddress == device.PCIAddress {
			return ordinal, nil
		}
		if d.Vendor == gpupool.VendorNVIDIA {
			ordinal++
		}
	}
	return 0, fmt.Errorf("%s has no UUID, and its place among the GPUs is not certain", device)
}

// probe encodes a frame on each GPU and in each height, as the segments will be,
// and drops the GPUs that fail: a GPU need not have an encoder. One that is
// locked up takes for ever, so a frame that takes longer than patience counts as
// failed.
func (h host) probe(ctx context.Context, s source, heights []int, work string, patience time.Duration, status *status) (inventory, error) {
	first := segment{frames: 1, start: s.cut(0), end: s.cut(1), first: s.frames[0].time, whole: true}
	tryOne := func(e encoder) error {
		ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no frame within %v", patience))
		defer cancel()
		for _, height := range heights {
			if err := e.encode(ctx, s.path, first, height, filepath.Join(work, "probe.mp4")); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return err
			}
		}
		return nil
	}
	var inv inventory
	for _, device := range h.devices {
		encoders, err := h.encoders(device)
		for _, e := range encoders {
			if err = tryOne(e); err == nil {
				inv.add(device, e)
				break
			}
		}
		if ctx.Err() != nil {
			return inventory{}, ctx.Err()
		}
		if err != nil {
			inv.dropped = append(inv.dropped, dropped{device, err.Error()})
			status.line("%s cannot encode: %v", device, err)
		}
	}
	return inv, nil
}
