"""Pictures of a running environment, small and fast enough to film clips while people wait for them.

Gymnasium draws MuJoCo at 480 × 480 with shadows, reflections and multisampling, some twenty pictures a second without a
graphics card. Here MuJoCo draws 240 × 240 without them, twenty times as fast, and the camera follows what the
environment's own camera settings name. Every other environment draws itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import InputError

SIDE = 240
"""Height and width of MuJoCo's pictures."""
Picture = NDArray[np.uint8]


class Camera:
    """Draws one environment, which was made with render_mode="rgb_array"."""

    def __init__(self, env: Any) -> None:
        self._env, self._bare = env, env.unwrapped
        self._renderer: Any = None
        self._view: Any = None
        self._is_mujoco = all(hasattr(self._bare, name) for name in ("model", "data", "mujoco_renderer"))

    def picture(self) -> Picture:
        """The environment as it is now, shape [height, width, 3]."""
        try:
            drawn = self._draw_mujoco() if self._is_mujoco else self._env.render()
        except Exception as error:
            raise InputError(f"the environment cannot be drawn: {type(error).__name__}: {error}") from error
        picture = np.asarray(drawn)
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise InputError(f"render gave {picture.dtype} of shape {picture.shape} instead of a picture")
        return picture

    def _draw_mujoco(self) -> Any:
        if self._renderer is None:
            self._renderer, self._view = self._open_mujoco()
        self._renderer.update_scene(self._bare.data, self._view)
        return self._renderer.render()

    def _open_mujoco(self) -> tuple[Any, Any]:
        import mujoco

        model = self._bare.model
        model.vis.quality.offsamples = 0
        side = min(SIDE, model.vis.global_.offwidth, model.vis.global_.offheight)
        renderer = mujoco.Renderer(model, side, side)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            renderer.scene.flags[flag] = False
        return renderer, self._point(mujoco)

    def _point(self, mujoco: Any) -> Any:
        """The camera as the environment sets it; one that names a body follows it, so that nobody walks out of view."""
        own, model, view = self._bare.mujoco_renderer, self._bare.model, mujoco.MjvCamera()
        if own.camera_id is not None and own.camera_id >= 0:
            view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, own.camera_id
            return view
        view.type = mujoco.mjtCamera.mjCAMERA_FREE
        view.lookat[:] = np.median(self._bare.data.geom_xpos, axis=0)
        view.distance = model.stat.extent
        for name, value in (own.default_cam_config or {}).items():
            if isinstance(value, np.ndarray):
                getattr(view, name)[:] = value
            else:
                setattr(view, name, value)
        if view.trackbodyid > 0:
            view.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        return view

    def close(self) -> None:
        """Give the graphics context back."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def ended_picture(like: Picture) -> Picture:
    """What is shown for a step of ⊥: grey, with the words "episode ended"."""
    from PIL import Image, ImageDraw

    height, width = like.shape[:2]
    image = Image.new("RGB", (width, height), (118, 118, 118))
    ImageDraw.Draw(image).text((width / 2, height / 2), "episode ended", fill=(255, 255, 255), anchor="mm")
    return np.asarray(image)
