package detect_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/gpupool/gpupool"
	"github.com/gpupool/gpupool/detect"
)

// A tree is a host's files, as far as they matter.
type tree fstest.MapFS

func newTree() tree {
	return tree{"sys/bus/pci/devices": {Mode: fs.ModeDir | 0o755}}
}

func (t tree) file(name, text string) {
	t[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
}

func (t tree) link(name, target string) {
	t[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// device adds a device file.
func (t tree) device(name string) {
	t["dev/"+name] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}
}

// pci adds a PCI device, as sysfs does: a link to a folder elsewhere.
func (t tree) pci(address, class, vendor, device, driver string) {
	real := "sys/devices/pci0000:00/" + address + "/"
	t.link("sys/bus/pci/devices/"+address, "../../../devices/pci0000:00/"+address)
	t.file(real+"class", class+"\n")
	t.file(real+"vendor", vendor+"\n")
	t.file(real+"device", device+"\n")
	if driver != "" {
		t.link(real+"driver", "../../../../bus/pci/drivers/"+driver)
	}
}

// attribute adds a file of a PCI device.
func (t tree) attribute(address, name, text string) {
	t.file("sys/devices/pci0000:00/"+address+"/"+name, text)
}

func (t tree) drm(address string, card, render int) {
	t.attribute(address, fmt.Sprintf("drm/card%d/uevent", card), "")
	t.attribute(address, fmt.Sprintf("drm/renderD%d/uevent", render), "")
	t.device(fmt.Sprintf("dri/renderD%d", render))
}

func (t tree) information(address, text string) {
	t.file("proc/driver/nvidia/gpus/"+address+"/information", text)
}

const l4 = "0x27b8"

// nvidia adds an L4 with its driver at work.
func (t tree) nvidia(address string, minor int) gpupool.GpuDevice {
	t.pci(address, "0x030200", "0x10de", l4, "nvidia")
	t.information(address, informationOf("NVIDIA L4", uuid(minor), minor))
	t.device(fmt.Sprintf("nvidia%d", minor))
	return gpupool.GpuDevice{Vendor: gpupool.VendorNVIDIA, Name: "NVIDIA L4", UUID: uuid(minor), PCIAddress: address}
}

func uuid(minor int) string {
	return fmt.Sprintf("GPU-%d5b1a3c4-0c1f-4d6e-9f0a-7a6b5c4d3e2f", minor)
}

func informationOf(model, uuid string, minor int) string {
	return fmt.Sprintf(`Model: 		 %s
IRQ:   		 145
GPU UUID: 	 %s
Video BIOS: 	 95.04.29.00.06
Bus Type: 	 PCIe
Bus Location: 	 0000:c1:00.0
Device Minor: 	 %d
GPU Firmware: 	 535.161.08
GPU Excluded:	 No
`, model, uuid, minor)
}

// amd adds a GPU with its driver at work.
func (t tree) amd(address, class, device string, card, render int) gpupool.GpuDevice {
	t.pci(address, class, "0x1002", device, "amdgpu")
	t.drm(address, card, render)
	return gpupool.GpuDevice{Vendor: gpupool.VendorAMD, Name: "AMD GPU " + device, PCIAddress: address,
		RenderNode: fmt.Sprintf("/dev/dri/renderD%d", render)}
}

func (t tree) intel(address, device, driver string, card, render int) gpupool.GpuDevice {
	t.pci(address, "0x030000", "0x8086", device, driver)
	t.drm(address, card, render)
	return gpupool.GpuDevice{Vendor: gpupool.VendorIntel, Name: "Intel GPU " + device, PCIAddress: address,
		RenderNode: fmt.Sprintf("/dev/dri/renderD%d", render)}
}

// at sets the Index that a device is expected to have.
func at(index int, d gpupool.GpuDevice) gpupool.GpuDevice {
	d.Index = index
	return d
}

// environment is a list of NAME=value.
func environment(variables ...string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		for _, variable := range variables {
			if name, value, _ := strings.Cut(variable, "="); name == key {
				return value, true
			}
		}
		return "", false
	}
}

func scan(t *testing.T, files tree, variables ...string) []gpupool.GpuDevice {
	t.Helper()
	devices, err := detect.Scan(fstest.MapFS(files), environment(variables...))
	require.NoError(t, err)
	return devices
}

func TestHosts(t *testing.T) {
	for _, test := range []struct {
		name string
		host func(tree) []gpupool.GpuDevice
	}{
		{"no GPUs", func(h tree) []gpupool.GpuDevice {
			h.pci("0000:00:00.0", "0x060000", "0x8086", "0x1237", "")
			h.pci("0000:00:03.0", "0x020000", "0x1af4", "0x1000", "virtio-pci")
			return []gpupool.GpuDevice{}
		}},
		{"no PCI bus", func(h tree) []gpupool.GpuDevice {
			delete(h, "sys/bus/pci/devices")
			h["sys/bus/platform"] = &fstest.MapFile{Mode: fs.ModeDir}
			return []gpupool.GpuDevice{}
		}},
		{"one NVIDIA card", func(h tree) []gpupool.GpuDevice {
			// Its sound function is not a GPU.
			h.pci("0000:c1:00.1", "0x040300", "0x10de", "0x22bc", "snd_hda_intel")
			return []gpupool.GpuDevice{h.nvidia("0000:c1:00.0", 0)}
		}},
		{"an NVIDIA card with a render node", func(h tree) []gpupool.GpuDevice {
			device := h.nvidia("0000:c1:00.0", 0)
			h.drm("0000:c1:00.0", 1, 128)
			device.RenderNode = "/dev/dri/renderD128"
			return []gpupool.GpuDevice{device}
		}},
		{"eight cards that sort wrongly as text", func(h tree) []gpupool.GpuDevice {
			var want []gpupool.GpuDevice
			for i, address := range []string{
				"0000:0a:00.0", "0000:1b:00.0", "0000:c1:00.0", "0000:c1:01.0",
				"2000:01:00.0", "2000:0f:00.0", "10000:01:00.0", "10000:e1:00.0",
			} {
				want = append(want, at(i, h.nvidia(address, 7-i)))
			}
			return want
		}},
		{"NVIDIA, an Intel iGPU, and BMC graphics", func(h tree) []gpupool.GpuDevice {
			h.pci("0000:05:00.0", "0x030000", "0x1a03", "0x2000", "ast")
			h.drm("0000:05:00.0", 0, 130)
			return []gpupool.GpuDevice{
				at(0, h.intel("0000:00:02.0", "0x4680", "i915", 1, 128)),
				at(1, h.nvidia("0000:01:00.0", 0)),
			}
		}},
		{"two AMD, one a display controller", func(h tree) []gpupool.GpuDevice {
			first := h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128)
			second := h.amd("0000:83:00.0", "0x038000", "0x740f", 1, 129)
			h.attribute("0000:83:00.0", "product_name", "AMD Instinct MI210\n")
			second.Name = "AMD Instinct MI210"
			return []gpupool.GpuDevice{at(0, first), at(1, second)}
		}},
		{"Intel with the xe driver", func(h tree) []gpupool.GpuDevice {
			return []gpupool.GpuDevice{h.intel("0000:03:00.0", "0xe20b", "xe", 0, 128)}
		}},
		{"a container given GPU 2 of 4, with all of the driver's files", func(h tree) []gpupool.GpuDevice {
			var all []gpupool.GpuDevice
			for i := range 4 {
				all = append(all, at(i, h.nvidia(fmt.Sprintf("0000:%d1:00.0", i), i)))
			}
			for _, hidden := range []string{"dev/nvidia0", "dev/nvidia1", "dev/nvidia3"} {
				delete(h, hidden)
			}
			return all[2:3]
		}},
		{"a container given GPU 2 of 4, with the driver's files of that", func(h tree) []gpupool.GpuDevice {
			var all []gpupool.GpuDevice
			for i := range 4 {
				address := fmt.Sprintf("0000:%d1:00.0", i)
				all = append(all, at(i, h.nvidia(address, i)))
				if i != 2 {
					delete(h, fmt.Sprintf("dev/nvidia%d", i))
					delete(h, "proc/driver/nvidia/gpus/"+address+"/information")
				}
			}
			h.device("nvidiactl")
			h.device("nvidia-uvm")
			return all[2:3]
		}},
		{"a container given one AMD GPU of two", func(h tree) []gpupool.GpuDevice {
			h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128)
			second := h.amd("0000:83:00.0", "0x030000", "0x744c", 1, 129)
			delete(h, "dev/dri/renderD128")
			return []gpupool.GpuDevice{at(1, second)}
		}},
		{"drivers that do not encode", func(h tree) []gpupool.GpuDevice {
			for address, driver := range map[string]string{
				"0000:01:00.0": "vfio-pci", "0000:02:00.0": "nouveau", "0000:03:00.0": "",
			} {
				h.pci(address, "0x030000", "0x10de", l4, driver)
				h.drm(address, 0, 128)
			}
			h.pci("0000:04:00.0", "0x030000", "0x1002", "0x744c", "radeon")
			h.pci("0000:05:00.0", "0x030000", "0x8086", "0x4680", "vfio-pci")
			// Without a driver of theirs they have no place in the order either.
			return []gpupool.GpuDevice{at(0, h.nvidia("0000:06:00.0", 0))}
		}},
		{"SR-IOV", func(h tree) []gpupool.GpuDevice {
			physical := h.intel("0000:03:00.0", "0x56c0", "i915", 0, 128)
			h.intel("0000:03:00.1", "0x56c0", "i915", 1, 129)
			h.link("sys/devices/pci0000:00/0000:03:00.1/physfn", "../0000:03:00.0")
			second := h.intel("0000:04:00.0", "0x56c0", "i915", 2, 130)
			return []gpupool.GpuDevice{at(0, physical), at(1, second)}
		}},
		{"a driver that has not initialised the GPU", func(h tree) []gpupool.GpuDevice {
			device := h.nvidia("0000:c1:00.0", 0)
			h.information("0000:c1:00.0", informationOf("Unknown", "GPU-????????-????-????-????-????????????", 0))
			device.UUID = ""
			device.Name = "NVIDIA GPU 0x27b8"
			return []gpupool.GpuDevice{device}
		}},
		{"no model", func(h tree) []gpupool.GpuDevice {
			device := h.nvidia("0000:c1:00.0", 0)
			h.information("0000:c1:00.0", "Device Minor: \t 0\n")
			device.UUID, device.Name = "", "NVIDIA GPU 0x27b8"
			return []gpupool.GpuDevice{device}
		}},
		{"an excluded GPU", func(h tree) []gpupool.GpuDevice {
			h.nvidia("0000:41:00.0", 0)
			h.information("0000:41:00.0", "Device Minor: 0\nGPU Excluded:\t Yes\n")
			return []gpupool.GpuDevice{at(1, h.nvidia("0000:c1:00.0", 1))}
		}},
		{"a GPU excluded by a driver of old", func(h tree) []gpupool.GpuDevice {
			h.nvidia("0000:41:00.0", 0)
			h.information("0000:41:00.0", "Device Minor: 0\nGPU Blacklisted:\t Yes\n")
			return []gpupool.GpuDevice{}
		}},
		{"device files from before a driver was changed", func(h tree) []gpupool.GpuDevice {
			h.pci("0000:01:00.0", "0x030000", "0x10de", l4, "vfio-pci")
			h.device("nvidia0")
			h.device("nvidia1")
			return []gpupool.GpuDevice{at(0, h.nvidia("0000:41:00.0", 1))}
		}},
		{"functions of one device, and a short id", func(h tree) []gpupool.GpuDevice {
			second := h.amd("0000:03:00.1", "0x038000", "0x0042", 1, 129)
			first := h.amd("0000:03:00.0", "0x038000", "0x0042", 0, 128)
			h.attribute("0000:03:00.0", "drm/renderD/uevent", "")
			h.attribute("0000:03:00.0", "drm/a-renderD1/uevent", "")
			return []gpupool.GpuDevice{at(0, first), at(1, second)}
		}},
		{"sixteen cards", func(h tree) []gpupool.GpuDevice {
			var want []gpupool.GpuDevice
			for i := range 16 {
				want = append(want, at(i, h.amd(fmt.Sprintf("0000:%02x:00.0", 3+i), "0x038000", "0x740c", i, 128+i)))
			}
			return want
		}},
		{"a PCI id list", func(h tree) []gpupool.GpuDevice {
			h.file("usr/share/misc/pci.ids", ids)
			amd := h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128)
			amd.Name = "Navi 31 [Radeon RX 7900 XT/7900 XTX]"
			nvidia := h.nvidia("0000:04:00.0", 0)
			h.information("0000:04:00.0", "Device Minor: 0\n")
			nvidia.UUID, nvidia.Name = "", "AD104GL [L4]"
			return []gpupool.GpuDevice{
				at(0, amd),
				at(1, nvidia),
				at(2, h.intel("0000:05:00.0", "0x744c", "i915", 1, 129)), // another vendor's id
			}
		}},
		{"a PCI id list in the other place", func(h tree) []gpupool.GpuDevice {
			h.file("usr/share/hwdata/pci.ids", ids)
			amd := h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128)
			amd.Name = "Navi 31 [Radeon RX 7900 XT/7900 XTX]"
			return []gpupool.GpuDevice{amd}
		}},
		{"no render node at all", func(h tree) []gpupool.GpuDevice {
			h.device("null")
			h.pci("0000:03:00.0", "0x030000", "0x1002", "0x744c", "amdgpu")
			h.pci("0000:04:00.0", "0x030000", "0x1002", "0x744c", "amdgpu")
			h.attribute("0000:04:00.0", "drm/card0/uevent", "")
			return []gpupool.GpuDevice{}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newTree()
			want := test.host(h)
			require.Equal(t, want, scan(t, h))
		})
	}
}

const ids = `#
#	List of PCI ID's
#
1002  Advanced Micro Devices, Inc. [AMD/ATI]
	744b  Navi 31 [Radeon Pro W7900D]
	744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]
		1da2 471e  PULSE RX 7900 XTX
10de  NVIDIA Corporation
	27b8  AD104GL [L4]
8086  Intel Corporation

C 03  Display controller
	00  VGA compatible controller
`

func TestCudaVisibleDevices(t *testing.T) {
	const notTold = "error"
	const (
		a = "0000:41:00.0"
		b = "0000:81:00.0"
		c = "0000:c1:00.0"
	)
	byPCI := "CUDA_DEVICE_ORDER=PCI_BUS_ID"
	for _, test := range []struct {
		name      string
		variables []string
		want      []string // of the NVIDIA GPUs
	}{
		{"unset", nil, []string{a, b, c}},
		{"empty", []string{"CUDA_VISIBLE_DEVICES="}, nil},
		{"-1", []string{"CUDA_VISIBLE_DEVICES=-1"}, nil},
		{"NoDevFiles", []string{"CUDA_VISIBLE_DEVICES=NoDevFiles"}, nil},
		{"an ordinal", []string{"CUDA_VISIBLE_DEVICES=1"}, []string{b}},
		{"ordinals keep PCI order", []string{"CUDA_VISIBLE_DEVICES=2,0"}, []string{a, c}},
		{"spaces", []string{"CUDA_VISIBLE_DEVICES= 0 , 2 "}, []string{a, c}},
		{"an ordinal too high ends the list", []string{"CUDA_VISIBLE_DEVICES=0,3,1"}, []string{a}},
		{"-1 ends the list", []string{"CUDA_VISIBLE_DEVICES=1,-1,0"}, []string{b}},
		{"nonsense ends the list", []string{"CUDA_VISIBLE_DEVICES=1,x,0"}, []string{b}},
		{"an empty entry ends the list", []string{"CUDA_VISIBLE_DEVICES=1,,0"}, []string{b}},
		{"a number in hex ends the list", []string{"CUDA_VISIBLE_DEVICES=0,0x1"}, []string{a}},
		{"an ordinal after a UUID ends the list", []string{"CUDA_VISIBLE_DEVICES=GPU-2,0"}, []string{c}},
		{"a UUID after an ordinal ends the list", []string{"CUDA_VISIBLE_DEVICES=0,GPU-2"}, []string{a}},
		{"an absurd ordinal", []string{"CUDA_VISIBLE_DEVICES=99999999999999999999"}, nil},
		{"a repeated ordinal shows none", []string{"CUDA_VISIBLE_DEVICES=1,1"}, nil},
		{"a UUID", []string{"CUDA_VISIBLE_DEVICES=" + uuid(2)}, []string{c}},
		{"UUIDs", []string{"CUDA_VISIBLE_DEVICES=" + uuid(2) + "," + uuid(0)}, []string{a, c}},
		{"a unique prefix", []string{"CUDA_VISIBLE_DEVICES=GPU-1"}, []string{b}},
		{"a prefix of several ends the list", []string{"CUDA_VISIBLE_DEVICES=GPU-1,GPU-,GPU-0"}, []string{b}},
		{"an unknown UUID ends the list", []string{"CUDA_VISIBLE_DEVICES=GPU-1,GPU-9,GPU-0"}, []string{b}},
		{"a repeated UUID shows none", []string{"CUDA_VISIBLE_DEVICES=GPU-1," + uuid(1)}, nil},
		{"PCI order", []string{"CUDA_VISIBLE_DEVICES=2", byPCI}, []string{c}},
		{"after the end, nothing counts", []string{"CUDA_VISIBLE_DEVICES=0,-1,MIG-1"}, []string{a}},
		{"a MIG slice", []string{"CUDA_VISIBLE_DEVICES=MIG-3a5b"}, []string{notTold, "MIG-3a5b is a MIG slice"}},
		{"a MIG slice of old", []string{"CUDA_VISIBLE_DEVICES=0,MIG-GPU-3a5b/1/0"}, []string{notTold, "MIG-GPU-3a5b/1/0 is a MIG slice"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newTree()
			h.nvidia(c, 2)
			h.nvidia(b, 1)
			h.nvidia(a, 0)
			intel := at(0, h.intel("0000:00:02.0", "0x4680", "i915", 0, 128))

			devices, err := detect.Scan(fstest.MapFS(h), environment(test.variables...))
			require.Equal(t, intel, devices[0], "the variable is for NVIDIA GPUs")
			if len(test.want) > 0 && test.want[0] == notTold {
				require.ErrorContains(t, err, "gpupool: CUDA_VISIBLE_DEVICES=")
				require.ErrorContains(t, err, test.want[1])
				require.Len(t, devices, 1)
				return
			}
			require.NoError(t, err)
			var seen []string
			for _, d := range devices[1:] {
				seen = append(seen, d.PCIAddress)
				require.Equal(t, map[string]int{a: 1, b: 2, c: 3}[d.PCIAddress], d.Index, "Index stays put")
			}
			require.Equal(t, test.want, seen)
		})
	}
}

func TestOrdinalsAmongDifferentModels(t *testing.T) {
	mixes := map[string]func(tree){
		"by PCI id": func(h tree) { h.pci("0000:c1:00.0", "0x030200", "0x10de", "0x20b0", "nvidia") },
		"by name": func(h tree) {
			h.information("0000:c1:00.0", informationOf("NVIDIA A100-SXM4-80GB", uuid(1), 1))
		},
	}
	for name, mix := range mixes {
		t.Run(name, func(t *testing.T) {
			h := newTree()
			h.nvidia("0000:41:00.0", 0)
			h.nvidia("0000:c1:00.0", 1)
			mix(h)

			for _, order := range []string{"CUDA_DEVICE_ORDER=FASTEST_FIRST", "X=y"} {
				devices, err := detect.Scan(fstest.MapFS(h), environment("CUDA_VISIBLE_DEVICES=1", order))
				require.Empty(t, devices)
				require.ErrorContains(t, err, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
				require.ErrorContains(t, err, "UUIDs")
				require.ErrorContains(t, err, `CUDA_VISIBLE_DEVICES="1"`)
			}
			require.Len(t, scan(t, h, "CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"), 1)
			require.Len(t, scan(t, h, "CUDA_VISIBLE_DEVICES="+uuid(1)), 1)
			require.Empty(t, scan(t, h, "CUDA_VISIBLE_DEVICES=-1"))
		})
	}
}

func TestOrdinalsCountTheGPUsOfTheContainer(t *testing.T) {
	h := newTree()
	for i := range 4 {
		h.nvidia(fmt.Sprintf("0000:%d1:00.0", i), i)
	}
	delete(h, "dev/nvidia0")
	delete(h, "dev/nvidia2")
	devices := scan(t, h, "CUDA_VISIBLE_DEVICES=1")
	require.Len(t, devices, 1)
	require.Equal(t, 3, devices[0].Index)
	require.Equal(t, uuid(3), devices[0].UUID)
}

func TestAUUIDWhileTheDriverDoesNotKnowThem(t *testing.T) {
	h := newTree()
	h.nvidia("0000:41:00.0", 0)
	h.nvidia("0000:c1:00.0", 1)
	h.information("0000:c1:00.0", informationOf("NVIDIA L4", "GPU-????????-????-????-????-????????????", 1))

	require.Len(t, scan(t, h, "CUDA_VISIBLE_DEVICES="+uuid(0)), 1, "a whole UUID that is known can be told")
	for _, value := range []string{uuid(1), "GPU-0"} {
		devices, err := detect.Scan(fstest.MapFS(h), environment("CUDA_VISIBLE_DEVICES="+value))
		require.Empty(t, devices)
		require.ErrorContains(t, err, "GPU 0000:c1:00.0")
		require.ErrorContains(t, err, "run nvidia-smi once")
	}
}

func TestTheVariableIsForHostsWithNVIDIAGPUs(t *testing.T) {
	h := newTree()
	h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128)
	require.Len(t, scan(t, h, "CUDA_VISIBLE_DEVICES=MIG-3a5b"), 1)
}

// CUDA may count a GPU that cannot be read here: then no ordinal is certain, and
// no UUID but a whole one.
func TestTheVariableBesideAFault(t *testing.T) {
	const faulty, good = "0000:41:00.0", "0000:c1:00.0"
	for name, fault := range map[string]func(tree){
		"of the information": func(h tree) { h.information(faulty, "Device Minor: N/A\n") },
		"of the id":          func(h tree) { h.attribute(faulty, "device", "zz") },
		"of the driver's files": func(h tree) {
			delete(h, "proc/driver/nvidia/gpus/"+faulty+"/information")
		},
		"of the class": func(h tree) { h.attribute(faulty, "class", "zz") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newTree()
			h.nvidia(faulty, 0)
			h.nvidia(good, 1)
			fault(h)
			for _, value := range []string{"0", "1", "7", "GPU-1"} {
				devices, err := detect.Scan(fstest.MapFS(h), environment("CUDA_VISIBLE_DEVICES="+value))
				require.Empty(t, devices)
				require.ErrorContains(t, err, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%q", value))
				require.ErrorContains(t, err, "device "+faulty)
			}
			devices, err := detect.Scan(fstest.MapFS(h), environment("CUDA_VISIBLE_DEVICES="+uuid(1)))
			require.Len(t, devices, 1)
			require.ErrorContains(t, err, faulty)
			require.NotContains(t, err.Error(), "CUDA_VISIBLE_DEVICES")
		})
	}
}

// What adds to the description of a GPU does not decide whether it can be used.
func TestAFaultOfADecorationCostsNoGPU(t *testing.T) {
	for name, test := range map[string]struct {
		fault func(tree)
		want  string
	}{
		"a product name too long": {func(h tree) { h.attribute("0000:03:00.0", "product_name", strings.Repeat("x", 5000)) }, "product_name"},
		"a file for drm":          {func(h tree) { h.attribute("0000:c1:00.0", "drm", "") }, "drm"},
		"a folder for a render node": {func(h tree) {
			h.attribute("0000:c1:00.0", "drm/renderD129/uevent", "")
			h.file("dev/dri/renderD129/file", "")
		}, "/dev/dri/renderD129 is a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTree()
			want := []gpupool.GpuDevice{
				at(0, h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128)),
				at(1, h.nvidia("0000:c1:00.0", 0)),
			}
			test.fault(h)
			devices, err := detect.Scan(fstest.MapFS(h), environment())
			require.ErrorContains(t, err, test.want)
			require.Equal(t, 1, len(strings.Split(err.Error(), "\n")), "%v", err)
			require.Equal(t, want, devices)
		})
	}
}

// Such a file is how a sandbox without a PCI bus shows a GPU.
func TestADeviceFileWithoutAGPUIsAnError(t *testing.T) {
	for name, h := range map[string]tree{
		"a bus without GPUs": newTree(),
		"no bus":             {"sys/bus/platform": {Mode: fs.ModeDir}},
	} {
		t.Run(name, func(t *testing.T) {
			h.device("nvidia3")
			h.device("nvidiactl")
			devices, err := detect.Scan(fstest.MapFS(h), environment())
			require.Empty(t, devices)
			require.ErrorContains(t, err, "gpupool: there is a /dev/nvidia3, but sysfs shows no NVIDIA GPU")
			delete(h, "dev/nvidia3")
			require.Empty(t, scan(t, h))
		})
	}
}

// Each fault is reported with its place, and costs the other GPUs nothing, not
// even their Index where the faulty device is known to be a GPU.
func TestFaults(t *testing.T) {
	const address = "0000:c1:00.0"
	const folder = "sys/devices/pci0000:00/" + address + "/"
	information := "proc/driver/nvidia/gpus/" + address + "/information"
	long := strings.Repeat("0x030000\n", 1000)
	aFolder := func(name string) func(tree) {
		return func(h tree) {
			delete(h, name)
			h.file(name+"/file", "")
		}
	}
	text := func(name, text string) func(tree) {
		return func(h tree) { h.file(name, text) }
	}
	for _, test := range []struct {
		name  string
		fault func(tree)
		want  string
	}{
		{"no class", func(h tree) { delete(h, folder+"class") }, "class"},
		{"an empty class", text(folder+"class", ""), `class: "" is not a number`},
		{"a class that is not hex", text(folder+"class", "0xvga"), `"0xvga" is not a number`},
		{"a class without 0x", text(folder+"class", "030000"), `"030000" is not a number`},
		{"a class too long", text(folder+"class", long), "longer than"},
		{"a class too large", text(folder+"class", "0x1000000000"), "is not a number"},
		{"a folder for a class", aFolder(folder + "class"), "class"},
		{"an empty vendor", text(folder+"vendor", "\n"), "vendor"},
		{"a device that is not hex", text(folder+"device", "L4"), `device: "L4"`},
		{"a driver that is no link", text(folder+"driver", "nvidia"), "driver"},
		{"an empty information", text(information, ""), "no Device Minor"},
		{"a minor that is not a number", text(information, "Device Minor: N/A\n"), `Device Minor "N/A"`},
		{"a negative minor", text(information, "Device Minor: -1\n"), `Device Minor "-1"`},
		{"information too long", text(information, strings.Repeat("Model: x\n", 1000)), "longer than"},
		{"a folder for information", aFolder(information), "information"},
		{"a folder for a device file", aFolder("dev/nvidia1"), "/dev/nvidia1 is a folder"},
		{"a device file that nobody explains", func(h tree) { delete(h, information) },
			"/dev/nvidia1 cannot be told to be its own"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newTree()
			good := h.nvidia("0000:41:00.0", 0)
			h.nvidia(address, 1)
			last := h.nvidia("0000:e1:00.0", 2)
			test.fault(h)
			devices, err := detect.Scan(fstest.MapFS(h), environment())
			require.ErrorContains(t, err, "gpupool: ")
			require.ErrorContains(t, err, address)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, 1, len(strings.Split(err.Error(), "\n")), "%v", err)
			index := 2
			if strings.Contains(err.Error(), "PCI device") {
				index = 1
			}
			require.Equal(t, []gpupool.GpuDevice{good, at(index, last)}, devices)
		})
	}
}

func TestSeveralFaultsAreAllReported(t *testing.T) {
	h := newTree()
	h.nvidia("0000:41:00.0", 0)
	h.nvidia("0000:81:00.0", 1)
	h.attribute("0000:41:00.0", "vendor", "")
	h.information("0000:81:00.0", "")
	h.pci("zero", "0x030000", "0x10de", l4, "nvidia")
	h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128)
	h.attribute("0000:03:00.0", "product_name/file", "")
	_, err := detect.Scan(fstest.MapFS(h), environment())
	for _, want := range []string{"0000:41:00.0", "0000:81:00.0", "PCI device zero: not a PCI address", "product_name"} {
		require.ErrorContains(t, err, want)
	}
}

// A container that has the host's sysfs mounted, and not its dev.
func TestGPUsWithoutAnyDeviceFilesAreAnError(t *testing.T) {
	for name, add := range map[string]func(tree){
		"AMD":    func(h tree) { h.amd("0000:03:00.0", "0x030000", "0x744c", 0, 128) },
		"NVIDIA": func(h tree) { h.nvidia("0000:03:00.0", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newTree()
			add(h)
			for file := range h {
				if strings.HasPrefix(file, "dev/") {
					delete(h, file)
				}
			}
			_, err := detect.Scan(fstest.MapFS(h), environment())
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestAHostThatCannotBeReadIsAnError(t *testing.T) {
	for name, h := range map[string]tree{
		"no sysfs":         {"proc": {Mode: fs.ModeDir}},
		"a file for a bus": {"sys/bus/pci/devices": {Data: []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			devices, err := detect.Scan(fstest.MapFS(h), environment())
			require.ErrorContains(t, err, "gpupool: detect GPUs: ")
			require.Empty(t, devices)
		})
	}
	_, err := detect.Scan(os.DirFS(t.TempDir()), environment())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// denied is a host on which one file cannot be reached.
type denied struct {
	fstest.MapFS
	name string
}

func (d denied) check(name string) error {
	if name == d.name {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return nil
}

func (d denied) Open(name string) (fs.File, error) {
	if err := d.check(name); err != nil {
		return nil, err
	}
	return d.MapFS.Open(name)
}

func (d denied) Stat(name string) (fs.FileInfo, error) {
	if err := d.check(name); err != nil {
		return nil, err
	}
	return d.MapFS.Stat(name)
}

func (d denied) Lstat(name string) (fs.FileInfo, error) {
	if err := d.check(name); err != nil {
		return nil, err
	}
	return d.MapFS.Lstat(name)
}

func (d denied) ReadLink(name string) (string, error) {
	if err := d.check(name); err != nil {
		return "", err
	}
	return d.MapFS.ReadLink(name)
}

func (d denied) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := d.check(name); err != nil {
		return nil, err
	}
	return d.MapFS.ReadDir(name)
}

func TestWhatMayNotBeReadIsAnError(t *testing.T) {
	const address = "0000:c1:00.0"
	folder := "sys/bus/pci/devices/" + address + "/"
	for _, name := range []string{
		"sys/bus/pci/devices", folder + "class", folder + "vendor", folder + "device", folder + "driver",
		folder + "physfn", folder + "drm", "dev/nvidia0", "proc/driver/nvidia/gpus/" + address + "/information",
	} {
		t.Run(name, func(t *testing.T) {
			h := newTree()
			h.nvidia(address, 0)
			_, err := detect.Scan(denied{fstest.MapFS(h), name}, environment())
			require.ErrorIs(t, err, fs.ErrPermission)
		})
	}
	h := newTree()
	h.nvidia(address, 0)
	delete(h, "proc/driver/nvidia/gpus/"+address+"/information")
	_, err := detect.Scan(denied{fstest.MapFS(h), "dev"}, environment())
	require.ErrorIs(t, err, fs.ErrPermission)
}

// The host of the tests, whatever it has.
func TestThisHost(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "") // has it restored
	os.Unsetenv("CUDA_VISIBLE_DEVICES")
	devices, err := detect.GPUs()
	if runtime.GOOS != "linux" {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		return
	}
	require.NoError(t, err)
	require.NotNil(t, devices)
	for _, d := range devices {
		require.NotEmpty(t, d.Name)
		require.NotEmpty(t, d.PCIAddress)
	}
}

func FuzzInformation(f *testing.F) {
	f.Add(informationOf("NVIDIA L4", uuid(0), 0))
	f.Add("Device Minor: 99999999999999999999\nModel")
	f.Add(":\n::\nGPU UUID: GPU-?\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		h := newTree()
		good := h.nvidia("0000:41:00.0", 0)
		h.nvidia("0000:c1:00.0", 1)
		h.information("0000:c1:00.0", text)
		devices, err := detect.Scan(fstest.MapFS(h), environment())
		require.Equal(t, good, devices[0])
		for _, d := range devices[1:] {
			require.NotEmpty(t, d.Name)
			require.NotContains(t, d.UUID, "?")
			require.NotContains(t, d.Name, "\n")
		}
		if err != nil {
			require.ErrorContains(t, err, "0000:c1:00.0")
		}
	})
}

func FuzzCudaVisibleDevices(f *testing.F) {
	f.Add("0,1", true)
	f.Add("GPU-0,MIG-1", false)
	f.Add("-1", false)
	f.Add(" , ,GPU-", true)
	f.Fuzz(func(t *testing.T, value string, byPCI bool) {
		h := newTree()
		for i := range 3 {
			h.nvidia(fmt.Sprintf("0000:%d1:00.0", i), i)
		}
		order := "CUDA_DEVICE_ORDER="
		if byPCI {
			order += "PCI_BUS_ID"
		}
		all := scan(t, h)
		devices, err := detect.Scan(fstest.MapFS(h), environment("CUDA_VISIBLE_DEVICES="+value, order))
		require.Subset(t, all, devices)
		if err != nil {
			require.Empty(t, devices)
			require.ErrorContains(t, err, "MIG-")
		}
		first, _, _ := strings.Cut(value, ",")
		if first == "1" && !strings.Contains(value, ",") {
			require.Equal(t, all[1:2], devices)
		}
	})
}
