CREATE TABLE "operation_clusters" (
	"cluster_id" uuid,
	"operation_id" uuid,
	"created_at" timestamp(3) with time zone DEFAULT now(),
	CONSTRAINT "operation_clusters_pkey" PRIMARY KEY("cluster_id","created_at","operation_id")
);
--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "restarts" jsonb;--> statement-breakpoint
ALTER TABLE "operation_clusters" ADD CONSTRAINT "operation_clusters_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id");