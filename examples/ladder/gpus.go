package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpupool/gpupool"
	"github.com/gpupool/gpupool/detect"
)

const vendorSimulated gpupool.GpuVendor = "simulated"

// An inventory is the GPUs to encode on.
type inventory struct {
	devices []gpupool.GpuDevice
	dropped []dropped

	// counted has the GPUs that CUDA's ordinals count: those too that
	// CUDA_VISIBLE_DEVICES hides from this process. It is in PCI order.
	counted []gpupool.GpuDevice
}

// A dropped GPU is one that cannot encode.
type dropped struct {
	gpupool.GpuDevice
	Reason string `json:"reason"`
}

func simulated(n int) inventory {
	var inv inventory
	for i := range n {
		inv.devices = append(inv.devices, gpupool.GpuDevice{Index: i, Vendor: vendorSimulated, Name: "one thread of libx264"})
	}
	return inv
}

// An encoder is what the ffmpeg command needs to encode in a certain place. The
// GPU is addressed by what names it alone: an ordinal depends on who counts.
type encoder struct {
	env    []string
	open   []string // arguments before the input
	filter string   // after scaling
	codec  []string
}

// encoderFor returns the encoder of the lease's GPU, or the CPU's for a nil
// lease.
func (inv inventory) encoderFor(lease *gpupool.GpuLease) (encoder, error) {
	if device, ok := lease.Device(); ok {
		return inv.encoderOn(device)
	}
	return encoder{filter: "format=yuv420p", codec: x264}, nil
}

var x264 = []string{"-c:v", "libx264", "-preset", "veryfast", "-crf", "23"}

func (inv inventory) encoderOn(device gpupool.GpuDevice) (encoder, error) {
	switch device.Vendor {
	case vendorSimulated:
		return encoder{
			env:    []string{"SIMULATED_GPU=" + strconv.Itoa(device.Index)},
			filter: "format=yuv420p",
			codec:  append(x264[:len(x264):len(x264)], "-threads", "1"),
		}, nil
	case gpupool.VendorNVIDIA:
		// The process sees one GPU, which is then its number 0.
		env := []string{"CUDA_VISIBLE_DEVICES=" + device.UUID}
		if device.UUID == "" {
			ordinal, err := inv.cudaOrdinal(device)
			if err != nil {
				return encoder{}, err
			}
			env = []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strconv.Itoa(ordinal)}
		}
		return encoder{
			env:    env,
			filter: "format=yuv420p",
			codec:  []string{"-c:v", "h264_nvenc", "-gpu", "0", "-rc", "vbr", "-cq", "23", "-b:v", "0"},
		}, nil
	case gpupool.VendorAMD, gpupool.VendorIntel:
		return encoder{
			open:   []string{"-vaapi_device", device.RenderNode},
			filter: "format=nv12,hwupload",
			codec:  []string{"-c:v", "h264_vaapi", "-qp", "23"},
		}, nil
	}
	return encoder{}, fmt.Errorf("no encoder is known for %s", device)
}

// cudaOrdinal returns the GPU's number in CUDA's PCI order.
func (inv inventory) cudaOrdinal(device gpupool.GpuDevice) (int, error) {
	ordinal := 0
	for _, d := range inv.counted {
		if d.PCIAddress == device.PCIAddress {
			return ordinal, nil
		}
		if d.Vendor == gpupool.VendorNVIDIA {
			ordinal++
		}
	}
	return 0, fmt.Errorf("%s has neither a UUID nor a known place on the bus", device)
}

// detected finds the GPUs of the host.
func detected(status *status) (inventory, error) {
	devices, err := checkDetected(detect.GPUs())
	if err != nil {
		if len(devices) == 0 {
			return inventory{}, err
		}
		status.line("%v", err)
	}
	// Its faults are those above.
	counted, _ := detect.Scan(os.DirFS("/"), func(string) (string, bool) { return "", false })
	return inventory{devices: devices, counted: counted}, nil
}

// checkDetected says what a fault of the detection means: a host may not be
// taken for one without GPUs only because that could not be told.
func checkDetected(devices []gpupool.GpuDevice, err error) ([]gpupool.GpuDevice, error) {
	switch {
	case err == nil, errors.Is(err, errors.ErrUnsupported):
		return devices, nil
	case len(devices) == 0:
		return nil, fmt.Errorf("it cannot be told which GPUs there are (-gpus 0 encodes on the CPU): %w", err)
	}
	return devices, fmt.Errorf("some GPUs are left out: %w", err)
}

// probe encodes a frame on each GPU, as its segments will be, and drops those
// that fail: a GPU need not have an encoder. One that is locked up takes for
// ever, so patience is how long a frame may take.
func (inv inventory) probe(ctx context.Context, s source, height int, work string, patience time.Duration, status *status) (inventory, error) {
	first := segment{frames: 1, start: s.cut(0), end: s.cut(1), whole: true}
	able := inventory{counted: inv.counted}
	for _, device := range inv.devices {
		e, err := inv.encoderOn(device)
		if err == nil {
			probing, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no frame within %v", patience))
			err = e.encode(probing, s.path, first, height, filepath.Join(work, "probe.mp4"))
			if probing.Err() != nil {
				err = context.Cause(probing)
			}
			cancel()
		}
		switch {
		case ctx.Err() != nil:
			return inventory{}, ctx.Err()
		case err != nil:
			able.dropped = append(able.dropped, dropped{device, err.Error()})
			status.line("%s cannot encode: %v", device, err)
		default:
			able.devices = append(able.devices, device)
		}
	}
	return able, nil
}
