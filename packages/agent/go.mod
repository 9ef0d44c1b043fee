module ostler-agent

go 1.19
