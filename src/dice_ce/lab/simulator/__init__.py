"""A simulator of capsule exams: endless material for demonstrations and tests that belongs to no patient."""

from dice_ce.lab.simulator.lesions import LESIONS
from dice_ce.lab.simulator.motion import CapsulePath, ExamScript, Pose, capsule_path
from dice_ce.lab.simulator.mucosa import Mucosa
from dice_ce.lab.simulator.samples import lesion_frames
from dice_ce.lab.simulator.scene import Field, Glimpse, Layer, Scene, Shot, build_scene, render, shoot
from dice_ce.lab.simulator.truth import Finding
from dice_ce.lab.simulator.view import View
from dice_ce.lab.simulator.write import SimulatedExam, simulate

__all__ = [
    "LESIONS",
    "CapsulePath",
    "ExamScript",
    "Field",
    "Finding",
    "Glimpse",
    "Layer",
    "Mucosa",
    "Pose",
    "Scene",
    "Shot",
    "SimulatedExam",
    "View",
    "build_scene",
    "capsule_path",
    "lesion_frames",
    "render",
    "shoot",
    "simulate",
]
