module github.com/gpupool/gpupool/benchmarks

go 1.26.0

require (
	github.com/gpupool/gpupool v0.0.0
	github.com/jackc/puddle/v2 v2.2.3
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.25.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/gpupool/gpupool => ../
