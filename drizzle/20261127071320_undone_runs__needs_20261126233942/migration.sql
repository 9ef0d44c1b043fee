-- decision 0063: runs have the state UNDONE; each row that fits the old check fits the new one.
ALTER TABLE "runs" DROP CONSTRAINT "runs_finished", ADD CONSTRAINT "runs_finished" CHECK (("finished_at" is not null) = ("state" in ('SUCCEEDED', 'FAILED', 'ABORTED', 'STOPPED', 'UNDONE'))) NOT VALID;
