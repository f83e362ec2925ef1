package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
)

var (
	nvidia = gpupool.GpuDevice{Index: 2, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4", UUID: "GPU-8f2e", PCIAddress: "0000:c1:00.0"}
	amd    = gpupool.GpuDevice{Index: 1, Vendor: gpupool.VendorAMD, Name: "W7900", PCIAddress: "0000:83:00.0", RenderNode: "/dev/dri/renderD129"}
	intel  = gpupool.GpuDevice{Index: 0, Vendor: gpupool.VendorIntel, Name: "Arc A380", PCIAddress: "0000:03:00.0", RenderNode: "/dev/dri/renderD128"}
)

func TestAGPUIsAddressedByWhatNamesItAlone(t *testing.T) {
	first, second := nvidia, nvidia
	first.PCIAddress, first.UUID = "0000:41:00.0", ""
	second.UUID = ""
	h := host{counted: []gpupool.GpuDevice{intel, first, amd, second}}
	nvenc := func(env ...string) encoder {
		return encoder{env, nil, "format=yuv420p",
			[]string{"-c:v", "h264_nvenc", "-gpu", "0", "-rc", "vbr", "-cq", "23", "-b:v", "0"}}
	}
	vaapi := func(node string, options ...string) encoder {
		return encoder{nil, []string{"-vaapi_device", node}, "format=nv12,hwupload",
			append([]string{"-c:v", "h264_vaapi", "-qp", "23"}, options...)}
	}
	for _, test := range []struct {
		name   string
		device gpupool.GpuDevice
		want   []encoder
	}{
		{"NVIDIA by UUID", nvidia, []encoder{nvenc("CUDA_VISIBLE_DEVICES=GPU-8f2e")}},
		{"NVIDIA without a UUID", first, []encoder{nvenc("CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=0")}},
		{"the second NVIDIA without a UUID", second, []encoder{nvenc("CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1")}},
		{"AMD", amd, []encoder{vaapi("/dev/dri/renderD129")}},
		{"Intel", intel, []encoder{vaapi("/dev/dri/renderD128"), vaapi("/dev/dri/renderD128", "-low_power", "1")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := h.encoders(test.device)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}

	_, err := host{}.encoders(first)
	require.ErrorContains(t, err, "nvidia:2 NVIDIA L4 has no UUID, and its place among the GPUs is not certain")
	_, err = h.encoders(gpupool.GpuDevice{Vendor: "matrox", Name: "G200"})
	require.ErrorContains(t, err, "no encoder is known for matrox:0 G200")
}

func TestALeaseHasItsEncoder(t *testing.T) {
	inv := simulated(2)
	pool := gpupool.New(inv.devices)
	for i := range 2 {
		lease, ok := pool.TryClaim()
		require.True(t, ok)
		require.Equal(t, encoder{[]string{fmt.Sprint("SIMULATED_GPU=", i)}, nil, "format=yuv420p",
			[]string{"-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-threads", "1"}}, inv.encoderFor(lease))
	}
	require.Equal(t, encoder{nil, nil, "format=yuv420p", []string{"-c:v", "libx264", "-preset", "veryfast", "-crf", "23"}},
		inv.encoderFor(nil))
}

func TestTheArgumentsOfAnEncode(t *testing.T) {
	e := encoder{nil, []string{"-vaapi_device", "/dev/dri/renderD128"}, "format=nv12,hwupload", []string{"-c:v", "h264_vaapi"}}
	s := segment{number: 1, frames: 60, start: 1.983333, end: 3.983333, first: 2, seek: 1.5}
	after := []string{"-fflags", "+genpts", "-copyts", "-i", "file:-a b.mp4", "-map", "0:V:0",
		"-vf", "settb=AVTB,trim=start=1.983333:end=3.983333,setpts=PTS-(2.000000)/TB,scale=-2:720,format=nv12,hwupload",
		"-c:v", "h264_vaapi", "-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-video_track_timescale", "90000"}
	require.Equal(t, append([]string{"-vaapi_device", "/dev/dri/renderD128",
		"-seek_timestamp", "1", "-noaccurate_seek", "-ss", "1.500000"}, after...), e.arguments("-a b.mp4", s, 720))
	s.whole = true
	require.Equal(t, append([]string{"-vaapi_device", "/dev/dri/renderD128"}, after...), e.arguments("-a b.mp4", s, 720))
}

func TestAFaultOfTheDetectionIsNeverAHostWithoutGPUs(t *testing.T) {
	fault := errors.New("gpupool: GPU 0000:41:00.0: no Device Minor")
	for _, test := range []struct {
		name    string
		devices []gpupool.GpuDevice
		err     error
		want    string
	}{
		{"GPUs", []gpupool.GpuDevice{amd}, nil, ""},
		{"no GPUs", nil, nil, ""},
		{"not Linux", nil, fmt.Errorf("on plan9: %w", errors.ErrUnsupported), ""},
		{"a fault", nil, fault, "it cannot be told which GPUs there are (-gpus 0 encodes on the CPU): gpupool: GPU 0000:41:00.0"},
		{"a fault beside a GPU", []gpupool.GpuDevice{amd}, fault, "some GPUs may be left out: gpupool: GPU 0000:41:00.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			devices, err := checkDetected(test.devices, test.err)
			require.Equal(t, test.devices, devices)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}

func TestTheReasonIsTheFirstComplaint(t *testing.T) {
	require.Equal(t, "OpenEncodeSessionEx failed: unsupported device (2)", reason(
		"[h264_nvenc @ 0x55a1df282c80] OpenEncodeSessionEx failed: unsupported device (2)\n"+
			"[h264_nvenc @ 0x55a1df282c80] No capable devices found\nConversion failed!\n"))
	require.Empty(t, reason("\n"))
}
