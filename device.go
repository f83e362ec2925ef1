package gpupool

import (
	"cmp"
	"fmt"
)

// GpuVendor names the maker of a GPU, in lower case. The empty vendor is
// unknown. The pool never looks at it, so values other than the constants here
// are welcome.
type GpuVendor string

// The vendors whose GPUs have a hardware video encoder in common use.
const (
	VendorNVIDIA GpuVendor = "nvidia"
	VendorAMD    GpuVendor = "amd"
	VendorIntel  GpuVendor = "intel"
)

// GpuDevice describes one GPU of the inventory. It is a plain comparable value:
// the pool stores and returns it as given, and interprets none of its fields.
// All strings but Name may be empty.
type GpuDevice struct {
	// Index is the host's number for the GPU. Indices may be sparse, and two
	// vendors may both have a 0. It is not the slot: that is the position in
	// the inventory.
	Index int `json:"index"`

	Vendor GpuVendor `json:"vendor"`

	// Name is the product name, for people.
	Name string `json:"name"`

	// UUID identifies the GPU also where programs number GPUs differently.
	UUID string `json:"uuid,omitempty"`

	// PCIAddress is the GPU's place on the bus, such as 0000:c1:00.0.
	PCIAddress string `json:"pci_address,omitempty"`

	// RenderNode is the GPU's device file, such as /dev/dri/renderD128.
	RenderNode string `json:"render_node,omitempty"`
}

// String returns the vendor, the index and the name: "nvidia:3 NVIDIA L4". An
// unknown vendor reads "gpu".
func (d GpuDevice) String() string {
	id := fmt.Sprintf("%s:%d", cmp.Or(d.Vendor, "gpu"), d.Index)
	if d.Name == "" {
		return id
	}
	return id + " " + d.Name
}
