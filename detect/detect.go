// Package detect lists the GPUs of a Linux host that this process may encode
// on, as the inventory of a [gpupool.GpuPool].
//
// It reads sysfs and procfs by itself: NVIDIA's library binding needs cgo and
// dies at start-up when linked with -z now, AMD's and Intel's need their SDKs to
// build, and the common hardware-inventory library fails on a host without a PCI
// id file and numbers cards by DRM node. All that an inventory needs stands in a
// few small files, and reading them opens no device.
//
// It knows GPUs on the PCI bus alone: not those of systems on a chip.
//
// A GPU of the inventory is not yet an encoder: some datacenter GPUs have none.
// Encode one frame on each before it joins the pool.
package detect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/gpupool/gpupool"
)

// GPUs lists the GPUs that this process may use: it is [Scan] of this host and
// this process's environment. On a system other than Linux it returns an error
// that wraps [errors.ErrUnsupported]. It is safe for concurrent use, and blocks
// only for as long as reading small files takes.
//
// A GPU without a device file is not usable and so not listed, and what may be
// opened is not looked at: a user needs the rights to the files as well. NVIDIA's
// files are made when the first program asks for them: on a host that has just
// started, run nvidia-smi once before.
func GPUs() ([]gpupool.GpuDevice, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("gpupool: detect GPUs on %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	return Scan(os.DirFS("/"), os.LookupEnv)
}

// Scan lists the GPUs of the host whose file tree root is: "/", or where a
// container has the host's mounted. It must be an [fs.ReadLinkFS], as that of
// [os.DirFS] is. Scan asks env, such as [os.LookupEnv], for the environment.
//
// A GPU is listed if it is NVIDIA's, AMD's or Intel's, a driver is bound to it
// that can use it (nvidia; amdgpu; i915 or xe), it is not a virtual function or
// excluded by the driver, and its device file is there: a container sees the
// files of the GPUs that it was given. CUDA_VISIBLE_DEVICES hides NVIDIA GPUs,
// as it does from CUDA.
//
// The list is in the order of the PCI addresses. Index is the position among all
// the host's GPUs that have such a driver, hidden ones too, so a GPU has the same
// Index in every container; it is neither CUDA's ordinal nor the DRM number.
// Name is never empty, PCIAddress always there, RenderNode where there is one,
// and UUID for an NVIDIA GPU that its driver has initialised.
//
// A host without GPUs gives an empty list and no error. What cannot be told is an
// error, so that no host falls back to the CPU in silence: sysfs that is missing
// or cannot be read, a device whose files make no sense, a device file that
// belongs to no GPU, or a CUDA_VISIBLE_DEVICES that cannot be resolved. The GPUs
// that are known to be usable are returned beside it; the error joins one for
// each fault, with the PCI address or the variable in it. Beside the fault of a
// device of which it cannot even be told whether it is a GPU, an Index can be too
// low.
func Scan(root fs.FS, env func(key string) (value string, set bool)) ([]gpupool.GpuDevice, error) {
	h := host{root: root}
	gpus, err := h.gpus()
	errs := []error{err}

	usable := []*gpu{}
	for _, g := range gpus {
		ok, err := h.describe(g)
		if err != nil {
			errs = append(errs, fmt.Errorf("gpupool: GPU %s: %w", g.address, err))
		}
		if ok {
			usable = append(usable, g)
		} else if err != nil && g.maker.vendor == gpupool.VendorNVIDIA {
			h.unread = g.address.String()
		}
	}
	errs = append(errs, h.checkUnexplained(gpus))

	usable, err = visible(usable, h.unread, env)
	errs = append(errs, err)
	devices := []gpupool.GpuDevice{}
	for _, g := range usable {
		devices = append(devices, g.device)
	}
	return devices, errors.Join(errs...)
}

// A host is a file tree to look for GPUs in.
type host struct {
	root fs.FS
	ids  *string // the PCI id list, read when first asked for

	// nvidia tells whether the bus has an NVIDIA GPU, whatever its driver.
	nvidia bool

	// unread is the address of a device that could not be read, and that CUDA
	// may or may not count.
	unread string
}

// A gpu is a GPU that has a usable driver.
type gpu struct {
	address address
	maker   *maker
	id      uint64 // the PCI device id
	device  gpupool.GpuDevice

	// fault is what keeps it from being described.
	fault error

	// minor is N of an NVIDIA GPU's /dev/nvidiaN, or -1 while it is not known.
	minor int

	// untold is set for an NVIDIA GPU of which the driver tells nothing.
	untold bool
}

// A maker is a vendor of GPUs with encoders.
type maker struct {
	vendor  gpupool.GpuVendor
	id      uint64 // the PCI vendor id
	brand   string
	drivers []string
}

var makers = []*maker{
	{gpupool.VendorNVIDIA, 0x10de, "NVIDIA", []string{"nvidia"}},
	{gpupool.VendorAMD, 0x1002, "AMD", []string{"amdgpu"}},
	{gpupool.VendorIntel, 0x8086, "Intel", []string{"i915", "xe"}},
}

const devicesFolder = "sys/bus/pci/devices"

// gpus returns the GPUs that have a usable driver, in the order of their
// addresses, with their Index.
func (h *host) gpus() ([]*gpu, error) {
	entries, err := fs.ReadDir(h.root, devicesFolder)
	if errors.Is(err, fs.ErrNotExist) {
		// A machine can have no PCI bus, but not be without a sysfs.
		if _, err := fs.Stat(h.root, "sys/bus"); err != nil {
			return nil, fmt.Errorf("gpupool: detect GPUs: no sysfs: %w", err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("gpupool: detect GPUs: %w", err)
	}
	var gpus []*gpu
	var errs []error
	for _, entry := range entries {
		g, err := h.pciDevice(entry.Name())
		if err != nil {
			errs = append(errs, fmt.Errorf("gpupool: PCI device %s: %w", entry.Name(), err))
			h.unread = entry.Name()
		}
		if g != nil {
			gpus = append(gpus, g)
		}
	}
	slices.SortFunc(gpus, func(a, b *gpu) int { return a.address.compare(b.address) })
	for i, g := range gpus {
		g.device.Index = i
	}
	return gpus, errors.Join(errs...)
}

// pciDevice reads whether a PCI device is a GPU with a usable driver, and
// returns nil if it is not.
func (h *host) pciDevice(name string) (*gpu, error) {
	address, err := parseAddress(name)
	if err != nil {
		return nil, err
	}
	folder := address.folder()
	class, err := h.readHex(folder + "class")
	if err != nil || class>>16 != 0x03 { // a display controller of any kind
		return nil, err
	}
	vendor, err := h.readHex(folder + "vendor")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(makers, func(m *maker) bool { return m.id == vendor })
	if i < 0 {
		return nil, nil // a server's BMC graphics, a virtual adapter
	}
	h.nvidia = h.nvidia || makers[i].vendor == gpupool.VendorNVIDIA
	virtual, err := h.exists(folder + "physfn")
	if err != nil || virtual {
		return nil, err
	}
	driver, err := h.driver(folder + "driver")
	if err != nil || !slices.Contains(makers[i].drivers, driver) {
		return nil, err
	}
	// Without its id the GPU still has its place in the order.
	id, fault := h.readHex(folder + "device")
	return &gpu{
		address: address,
		maker:   makers[i],
		id:      id,
		device:  gpupool.GpuDevice{Vendor: makers[i].vendor, PCIAddress: name},
		fault:   fault,
		minor:   -1,
	}, nil
}

// describe fills in the GPU's device, and tells whether this process can use it.
// It can be usable for all that an error says of it.
func (h *host) describe(g *gpu) (usable bool, err error) {
	if g.fault != nil {
		return false, g.fault
	}
	node, nodeErr := h.renderNode(g)
	g.device.RenderNode = node
	if g.maker.vendor == gpupool.VendorNVIDIA {
		usable, err = h.describeNVIDIA(g)
	} else {
		usable = node != ""
		g.device.Name, err = h.readText(g.address.folder() + "product_name") // amdgpu has it
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if usable && g.device.Name == "" {
		g.device.Name = h.nameByIDs(g)
	}
	return usable, errors.Join(err, nodeErr)
}
