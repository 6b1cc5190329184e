"""What a running pipeline reports: its status file, its progress lines and its figures for Prometheus."""
