/** Wraps the engine: reports every mutating request and every callback to the observer. */
import type { Engine } from "../engine/engine.ts";
import type { Refusal } from "../errors.ts";
import type { AdmissionEnd, Observer } from "../observer.ts";

/** Members that the engine's answers share. */
interface Answer {
  readonly operationId?: string | null;
  readonly refusals?: readonly Refusal[];
  readonly results?: readonly { readonly accepted?: boolean; readonly refusal?: Refusal | null }[];
  readonly replayed?: boolean;
}

export function instrumentEngine(engine: Engine, observer: Observer): Engine {
  const admit = <T extends object>(verb: string, { actor }: { readonly actor: string }, work: () => Promise<T>) =>
    observer.admission({ verb, actor }, work, (answer) => endOf(answer));
  return {
    ...engine,
    submit: (caller, request) => admit(request.kind.toLowerCase(), caller, () => engine.submit(caller, request)),
    abort: (caller, request) => admit("abort", caller, () => engine.abort(caller, request)),
    stop: (caller, request) => admit("stop", caller, () => engine.stop(caller, request)),
    restart: (caller, request) => admit("restart", caller, () => engine.restart(caller, request)),
    applyCluster: (caller, request) => admit("apply", caller, () => engine.applyCluster(caller, request)),
    withdrawAbort: (caller, request) => admit("withdraw_abort", caller, () => engine.withdrawAbort(caller, request)),
    unhold: (caller, request) => admit("unhold", caller, () => engine.unhold(caller, request)),
    steerWaves: (caller, request) => admit("steer_waves", caller, () => engine.steerWaves(caller, request)),
    registerNodes: (caller, nodes) => admit("register_nodes", caller, () => engine.registerNodes(caller, nodes)),
    discoverNodes: (caller, request) => admit("discover_nodes", caller, () => engine.discoverNodes(caller, request)),
    reportPresence: (caller, event, nodes) =>
      admit("report_presence", caller, () => engine.reportPresence(caller, event, nodes)),
    updateNodes: (caller, request) => admit("update_nodes", caller, () => engine.updateNodes(caller, request)),
    deleteNodes: (caller, selector) => admit("delete_nodes", caller, () => engine.deleteNodes(caller, selector)),
    setMaintenance: (caller, selector, reason) =>
      admit("set_maintenance", caller, () => engine.setMaintenance(caller, selector, reason)),
    clearMaintenance: (caller, selector) =>
      admit("clear_maintenance", caller, () => engine.clearMaintenance(caller, selector)),
    setRetired: (caller, selector, reason) =>
      admit("set_retired", caller, () => engine.setRetired(caller, selector, reason)),
    clearRetired: (caller, selector) => admit("clear_retired", caller, () => engine.clearRetired(caller, selector)),
    createCluster: (caller, cluster) => admit("create_cluster", caller, () => engine.createCluster(caller, cluster)),
    updateCluster: (caller, ref, change) =>
      admit("update_cluster", caller, () => engine.updateCluster(caller, ref, change)),
    deleteCluster: (caller, ref, ifRevision) =>
      admit("delete_cluster", caller, () => engine.deleteCluster(caller, ref, ifRevision)),
    createRunbook: (caller, runbook) => admit("create_runbook", caller, () => engine.createRunbook(caller, runbook)),
    updateRunbook: (caller, name, change) =>
      admit("update_runbook", caller, () => engine.updateRunbook(caller, name, change)),
    deleteRunbook: (caller, name, ifRevision) =>
      admit("delete_runbook", caller, () => engine.deleteRunbook(caller, name, ifRevision)),
    registerImages: (caller, images) => admit("register_images", caller, () => engine.registerImages(caller, images)),
    updateImage: (caller, image, change) =>
      admit("update_image", caller, () => engine.updateImage(caller, image, change)),
    deleteImages: (caller, request) => admit("delete_images", caller, () => engine.deleteImages(caller, request)),
    updateSite: (caller, change) => admit("update_site", caller, () => engine.updateSite(caller, change)),
    async receiveCallback(token, body) {
      const outcome = await engine.receiveCallback(token, body);
      observer.calledBack(outcome);
      return outcome;
    },
  };
}

function endOf({ operationId = null, refusals = [], results = [], replayed = false }: Answer): AdmissionEnd {
  const codes = [...refusals, ...results.flatMap(({ refusal }) => (refusal ? [refusal] : []))].map(({ code }) => code);
  return { operationId, nodes: results.filter(({ accepted }) => accepted === true).length, codes, replayed };
}
