"""How far a launch has come, from the marker lines: stage at work, last stage seen complete, ready, served, stopping."""

from __future__ import annotations

from dataclasses import dataclass

from playbooks.judging.signature_catalogue import Marker
from playbooks.vocabulary import LAUNCH_STAGES, Stage

_ENGINE_SIDE = ("EngineCore", "Worker", "VllmWorker", "RayWorker")


@dataclass(slots=True)
class Progress:
    """The course of one launch; line numbers are None until it happened."""

    current: Stage = Stage.CONTAINER_INIT
    reached: Stage = Stage.NONE
    began: bool = False
    ready_no: int | None = None
    served_no: int | None = None
    stopping_no: int | None = None
    ended_no: int | None = None

    def seen(self, process: str) -> None:
        """An engine or worker process writes: the container, the imports and the command line were fine."""
        if self.current is Stage.CONTAINER_INIT and process.startswith(_ENGINE_SIDE):
            self._enter(Stage.DEVICE_RECOGNITION)

    def take(self, marker: Marker, no: int) -> None:
        """Move on by one marker; a stage never goes back within a launch."""
        self.began = True
        match marker.event:
            case "begin" | "progress" | "failed":
                self._enter(marker.stage)
            case "complete":
                if marker.stage.position > self.reached.position:
                    self.reached = marker.stage
                # after the devices comes communication, and loading begins with a line of its own
                self._enter(marker.stage if marker.stage is Stage.DEVICE_RECOGNITION else _after(marker.stage))
            case "ready":
                self.ready_no = self.ready_no or no
                self.reached = Stage.ENGINE_INIT if self.served_no is None else self.reached
                self._enter(Stage.ENDPOINT_READY)
            case "served":
                self.ready_no = self.ready_no or no
                self.served_no = self.served_no or no
                self.reached = Stage.ENDPOINT_READY
                self._enter(Stage.SERVING)
            case "stopping":
                self.stopping_no = self.stopping_no or no
            case "ended":
                self.ended_no = self.ended_no or no
            case _:
                pass

    def _enter(self, stage: Stage) -> None:
        if stage.position > self.current.position:
            self.current = stage
            before = _before(stage)
            if before.position > self.reached.position:
                self.reached = before


def _after(stage: Stage) -> Stage:
    later = [s for s in (*LAUNCH_STAGES, Stage.SERVING) if s.position > stage.position]
    return later[0] if later else stage


def _before(stage: Stage) -> Stage:
    earlier = [s for s in LAUNCH_STAGES if s.position < stage.position]
    return earlier[-1] if earlier else Stage.NONE
