package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
)

func TestOutput(t *testing.T) {
	devices := []gpupool.GpuDevice{
		{Index: 0, Vendor: gpupool.VendorIntel, Name: "Arc A380", PCIAddress: "0000:03:00.0", RenderNode: "/dev/dri/renderD128"},
		{Index: 2, Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4", PCIAddress: "0000:c1:00.0", UUID: "GPU-8f2e"},
	}
	fault := errors.New("gpupool: GPU 0000:41:00.0: no Device Minor")
	for _, test := range []struct {
		name           string
		args           []string
		devices        []gpupool.GpuDevice
		err            error
		status         int
		stdout, stderr string
	}{
		{"a table", nil, devices, nil, 0, "" +
			"INDEX  VENDOR  NAME       PCI ADDRESS   RENDER NODE          UUID\n" +
			"0      intel   Arc A380   0000:03:00.0  /dev/dri/renderD128  \n" +
			"2      nvidia  NVIDIA L4  0000:c1:00.0                       GPU-8f2e\n", ""},
		{"JSON", []string{"-json"}, devices[1:], nil, 0, `[
  {
    "index": 2,
    "vendor": "nvidia",
    "name": "NVIDIA L4",
    "uuid": "GPU-8f2e",
    "pci_address": "0000:c1:00.0"
  }
]
`, ""},
		{"nothing", nil, []gpupool.GpuDevice{}, nil, 0, "no GPUs\n", ""},
		{"nothing as JSON", []string{"-json"}, []gpupool.GpuDevice{}, nil, 0, "[]\n", ""},
		{"a fault", nil, nil, fault, 1, "", fault.Error() + "\n"},
		{"a fault beside a GPU", []string{"-json"}, []gpupool.GpuDevice{{}}, fault, 1,
			"[\n  {\n    \"index\": 0,\n    \"vendor\": \"\",\n    \"name\": \"\"\n  }\n]\n", fault.Error() + "\n"},
		{"a stray argument", []string{"all"}, devices, nil, 2, "", "gpus: unexpected argument \"all\"\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, test.status, run(test.args, test.devices, test.err, &stdout, &stderr))
			require.Equal(t, test.stdout, stdout.String())
			require.Equal(t, test.stderr, stderr.String())
		})
	}
}
